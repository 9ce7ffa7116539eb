"""Which jobs are meant, as a filter of the store: flags and values as sacct has them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from forewarn.errors import UsageError
from forewarn.job.outcomes import LIVE_STATES, OUTCOME_OF_STATE, Outcome
from forewarn.job.units import expand_nodes, parse_job_id
from forewarn.store.filters import AllOf, AnyOf, Filter, Lists, Missing, OneOf

# sacct's short names (slurm.h) of the states people ask for.
_SHORT = {
    **{"BF": "BOOT_FAIL", "CA": "CANCELLED", "CD": "COMPLETED", "DL": "DEADLINE", "F": "FAILED"},
    **{"NF": "NODE_FAIL", "OOM": "OUT_OF_MEMORY", "PD": "PENDING", "PR": "PREEMPTED", "R": "RUNNING"},
    **{"RQ": "REQUEUED", "RS": "RESIZING", "RV": "REVOKED", "S": "SUSPENDED", "TO": "TIMEOUT"},
}


def all_of(tests: Iterable[Filter | None]) -> Filter | None:
    """Every test that there is, or None where there is none."""
    given = tuple(test for test in tests if test is not None)
    return AllOf(given) if given else None


def one_of(column: str, texts: Iterable[str]) -> Filter | None:
    """The column is one of these; each text may be a list itself: ``-u alice,bob``."""
    values = split(texts)
    return OneOf(column, tuple(values)) if values else None


def in_partition(texts: Iterable[str]) -> Filter | None:
    """The job is in one of these partitions, or waits for one of several."""
    values = split(texts)
    return Lists("partition", tuple(values)) if values else None


def in_state(texts: Iterable[str]) -> Filter | None:
    """The job ended like this, or stands like this now; sacct's states, long or short, or outcomes."""
    outcomes: set[str] = set()
    states: set[str] = set()
    for text in split(texts):
        state = _SHORT.get(text.upper(), text.upper())
        if state in OUTCOME_OF_STATE:
            outcomes.add(OUTCOME_OF_STATE[state])
        elif state == Outcome.UNKNOWN.upper():
            outcomes.add(Outcome.UNKNOWN)
        elif state in LIVE_STATES:
            states.add(state)
        else:
            known = ", ".join([*Outcome, "pending", "running", "suspended"])
            raise UsageError(f"--state: no state {text!r}; known are {known}, and sacct's short names")
    if not outcomes and not states:
        return None
    stands = OneOf("state", tuple(sorted(states))) & Missing("outcome")
    return OneOf("outcome", tuple(sorted(outcomes))) | stands


@dataclass(frozen=True, slots=True)
class JobIdSelection:
    """The jobs that a list of ids names."""

    exact: frozenset[str]
    whole: frozenset[int]  # an array's or het job's number stands for all of its parts

    @property
    def test(self) -> Filter:
        """The job is one of these."""
        whole = tuple(sorted(self.whole))
        ids = OneOf("job_id", tuple(sorted(self.exact)))
        return AnyOf((ids, OneOf("array_job_id", whole), OneOf("het_job_id", whole)))


def ids_of(texts: Iterable[str]) -> JobIdSelection | None:
    """The ids in lists like ``123,123_[1-3],7+1``, or None where there is none."""
    exact: set[str] = set()
    whole: set[int] = set()
    for text in split_ids(texts):
        try:
            found = parse_job_id(text)
            tasks = expand_nodes(f"[{found.tasks.partition('%')[0]}]") if found.tasks else []
        except ValueError:
            raise UsageError(
                f"--jobs: not a job id: {text!r}. Write 123, 123_4, 123_[1-3] or 123+1"
            ) from None
        exact |= {found.job, *(f"{found.number}_{int(task)}" for task in tasks)}
        if found.job == str(found.number):
            whole.add(found.number)
    return JobIdSelection(frozenset(exact), frozenset(whole)) if exact else None


def split(texts: Iterable[str]) -> list[str]:
    """The parts of comma separated lists.

    >>> split(["a,b", "c"])
    ['a', 'b', 'c']
    """
    return [part.strip() for text in texts for part in text.split(",") if part.strip()]


def split_ids(texts: Iterable[str]) -> list[str]:
    """The same for job ids, whose brackets may hold commas.

    >>> split_ids(["7,8_[1,3-4]"])
    ['7', '8_[1,3-4]']
    """
    parts: list[str] = []
    for part in split(texts):
        if parts and parts[-1].count("[") > parts[-1].count("]"):
            parts[-1] += "," + part
        else:
            parts.append(part)
    return parts
