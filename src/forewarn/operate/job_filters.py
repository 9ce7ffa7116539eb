"""Filters of the store from flags and values as sacct has them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from forewarn.errors import UsageError
from forewarn.job.outcomes import LIVE_STATES, OUTCOME_OF_STATE, Outcome
from forewarn.job.units import expand_nodes, parse_job_id
from forewarn.store.filters import AllOf, AnyOf, Filter, Lists, Missing, OneOf

# sacct's short names of states (slurm.h).
_SHORT = {
    **{"BF": "BOOT_FAIL", "CA": "CANCELLED", "CD": "COMPLETED", "DL": "DEADLINE", "F": "FAILED"},
    **{"NF": "NODE_FAIL", "OOM": "OUT_OF_MEMORY", "PD": "PENDING", "PR": "PREEMPTED", "R": "RUNNING"},
    **{"RQ": "REQUEUED", "RS": "RESIZING", "RV": "REVOKED", "S": "SUSPENDED", "TO": "TIMEOUT"},
}


def all_of(filters: Iterable[Filter | None]) -> Filter | None:
    """Combine filters by "and"; None where there are none."""
    present = tuple(one for one in filters if one is not None)
    return AllOf(present) if present else None


def one_of(column: str, texts: Iterable[str]) -> Filter | None:
    """Build a filter for one of several values; each text may itself be a list: ``-u alice,bob``."""
    values = split(texts)
    return OneOf(column, tuple(values)) if values else None


def in_partition(texts: Iterable[str]) -> Filter | None:
    """Build a filter for jobs in one of these partitions; a pending job may list several."""
    values = split(texts)
    return Lists("partition", tuple(values)) if values else None


def in_state(texts: Iterable[str]) -> Filter | None:
    """Build a filter for outcomes or current states; in sacct's names, long or short, or as outcomes."""
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
            states_known = ", ".join([*Outcome, "pending", "running", "suspended"])
            raise UsageError(
                f"--state: no state {text!r}; choose from {states_known}, and sacct's short names"
            )
    if not outcomes and not states:
        return None
    is_live = OneOf("state", tuple(sorted(states))) & Missing("outcome")
    return OneOf("outcome", tuple(sorted(outcomes))) | is_live


@dataclass(frozen=True, slots=True)
class JobIdSelection:
    """The jobs named by a list of ids."""

    exact: frozenset[str]
    whole: frozenset[int]  # numbers of arrays and het jobs, which stand for all of their parts

    @property
    def test(self) -> Filter:
        """The filter for these jobs."""
        whole = tuple(sorted(self.whole))
        ids = OneOf("job_id", tuple(sorted(self.exact)))
        return AnyOf((ids, OneOf("array_job_id", whole), OneOf("het_job_id", whole)))


def parse_job_ids(texts: Iterable[str]) -> JobIdSelection | None:
    """Parse lists of ids like ``123,123_[1-3],7+1``; None where there are none."""
    exact: set[str] = set()
    whole: set[int] = set()
    for text in split_job_ids(texts):
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
    """Split comma-separated lists.

    >>> split(["a,b", "c"])
    ['a', 'b', 'c']
    """
    return [part.strip() for text in texts for part in text.split(",") if part.strip()]


def split_job_ids(texts: Iterable[str]) -> list[str]:
    """Split comma-separated lists of job ids, whose brackets may contain commas.

    >>> split_job_ids(["7,8_[1,3-4]"])
    ['7', '8_[1,3-4]']
    """
    parts: list[str] = []
    for part in split(texts):
        if parts and parts[-1].count("[") > parts[-1].count("]"):
            parts[-1] += "," + part
        else:
            parts.append(part)
    return parts
