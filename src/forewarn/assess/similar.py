"""Earlier jobs of the same user that were much like this one, and what became of them.

Only the user's own: others' jobs are private. The same measure as the features have (`kernel/emit.py`): sizes
by their ratio, then name, folder, partition, and the script where both are known. The tasks of an array, and
equal jobs that were sent within minutes, are one decision: one of them is told of, with how many there were.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from forewarn.assess.assessment import SimilarJob
from forewarn.assess.explanation.amounts import count, duration, memory
from forewarn.features.keys import normalised
from forewarn.job.outcomes import Outcome
from forewarn.job.record import Job
from forewarn.store.base import KNOWN_AT, Store
from forewarn.store.filters import Between, Equal, Missing

LOOKED_AT = 400  # of the user's newest decisions
LOOKED_AT_JOBS = 2000  # of the newest jobs: one array can have more
GAP = 600  # seconds without an equal job after which the next one is another decision
ENOUGH = 0.35  # similarity below which a job is another one: three times the CPUs, or another name
MOST = 14
_DAY = 86_400
_COLUMNS = (
    *("cluster", "job_id", "submit", "user", "name", "work_dir", "partition", "qos", "script_hash"),
    *("cpus_asked", "nodes_asked", "gpus_asked", "memory_asked", "memory_per", "time_limit", "array_job_id"),
    *("start", "end", "suspended", "outcome"),
)
_IN_WORDS = {
    Outcome.OUT_OF_MEMORY: "out of memory",
    Outcome.TIMEOUT: "at their time limit",
    Outcome.NODE_FAIL: "as a node failed",
    Outcome.DEADLINE: "at their deadline",
    Outcome.BOOT_FAIL: "as a node did not boot",
}
NO_FAILURE = frozenset({Outcome.COMPLETED, Outcome.CANCELLED, Outcome.PREEMPTED, Outcome.UNKNOWN})


@dataclass(frozen=True, slots=True)
class Similar:
    """The most similar jobs, the most similar first, and how they ended in one line."""

    jobs: tuple[SimilarJob, ...] = ()
    tally: str | None = None  # of your 14 most similar jobs 9 failed, 6 of them out of memory


def similar_jobs(
    store: Store, job: Job, *, as_of: int | None = None, most: int = MOST, whose: str = "your"
) -> Similar:
    """What became of the user's jobs most like this one, as far as that was known at a moment.

    Parameters
    ----------
    as_of
        The moment; without it, the job's submit.
    """
    if job.user is None:
        return Similar()
    moment = job.submit if as_of is None else as_of
    ranked = sorted(
        ((similarity(job, together[-1]), together) for together in _decisions(store, job, moment)),
        key=lambda pair: (-pair[0], -pair[1][-1].submit),
    )
    found = tuple(
        _told(job, together, round(alike, 3)) for alike, together in ranked[:most] if alike >= ENOUGH
    )
    return Similar(found, tally(found, whose))


def _told(job: Job, together: Sequence[Job], alike: float) -> SimilarJob:
    """One decision, told by the newest of its jobs that ended as most of them did."""
    outcomes = Counter(str(other.outcome) for other in together)
    usual, _ = max(outcomes.items(), key=lambda pair: (pair[1], pair[0] not in NO_FAILURE))
    speaker = next(other for other in reversed(together) if other.outcome == usual)
    return SimilarJob(
        job_id=speaker.job_id,
        submit=speaker.submit,
        similarity=alike,
        outcome=usual,
        run_time=max((other.run_time for other in together if other.run_time is not None), default=None),
        differs=differences(job, speaker),
        outcomes=dict(outcomes.most_common()),
    )


def _decisions(store: Store, job: Job, moment: int) -> list[list[Job]]:
    """The user's newest jobs, those together that are one decision, in order of submit."""
    found: list[list[Job]] = []
    latest: dict[tuple[object, ...], list[Job]] = {}
    for other in sorted(_of_the_user(store, job, moment), key=lambda one: one.submit):
        if other.key == job.key or (job.array_job_id is not None and other.array_job_id == job.array_job_id):
            continue
        is_task = other.array_job_id is not None
        request = ("array", other.array_job_id) if is_task else _request(other)
        together = latest.get(request)
        if together is None or (not is_task and other.submit - together[-1].submit >= GAP):
            together = latest[request] = []
            found.append(together)
        together.append(other)
    return found[-LOOKED_AT:]


def _request(job: Job) -> tuple[object, ...]:
    """All that is compared of a job."""
    sizes = job.cpus_asked, job.nodes_asked, job.gpus_asked, job.memory_asked, job.memory_per, job.time_limit
    return (*sizes, _plain(job.name), _plain(job.work_dir), job.partition, job.qos, job.script_hash)


def _of_the_user(store: Store, job: Job, moment: int) -> Iterator[Job]:
    """Their newest jobs whose ending was known, by windows back in time, each longer than the one before."""
    known = Equal("user", job.user) & ~Missing("outcome") & Between(KNOWN_AT, most=moment)
    upper, length, left = moment + 1, 4 * _DAY, LOOKED_AT_JOBS
    while left > 0 and upper > 0:
        lower = max(0, upper - length) if length < 4_000 * _DAY else 0
        frames = [
            frame
            for frame in store.scan(
                cluster=job.cluster, since=lower, until=upper, columns=_COLUMNS, where=known
            )
            if frame.height
        ]
        if frames:
            # A frame of some columns only: the others of the record are not compared.
            rows = pl.concat(frames).tail(left)
            left -= rows.height
            yield from (Job(**row) for row in rows.iter_rows(named=True))
        upper, length = lower, length * 5


def similarity(job: Job, other: Job) -> float:
    """Between 0 and 1, which is equal in all that is compared.

    >>> one = Job(cluster="c", job_id="1", submit=0, name="fit_01", cpus_asked=4)
    >>> round(similarity(one, Job(cluster="c", job_id="2", submit=0, name="fit_07", cpus_asked=8)), 2)
    0.37
    """
    distance = _apart(job.cpus_asked, other.cpus_asked) + _apart(job.time_limit, other.time_limit)
    distance += 0.5 * _apart(_whole_memory(job), _whole_memory(other))
    distance += _apart(job.gpus_asked or None, other.gpus_asked or None)
    distance += 1.5 * (_plain(job.name) != _plain(other.name))
    distance += 0.5 * (_plain(job.work_dir) != _plain(other.work_dir))
    distance += 0.5 * ((job.partition, job.qos) != (other.partition, other.qos))
    if job.script_hash and other.script_hash:
        distance += 0.3 * (job.script_hash != other.script_hash)
    return math.exp(-distance)


def _plain(text: str | None) -> str | None:
    return None if text is None else normalised(text)


def _apart(one: float | None, other: float | None) -> float:
    """How far two sizes are apart, in powers of two; missing against present is far."""
    if not one or not other:
        return 0.0 if not one and not other else 2.0
    return abs(math.log2(one / other))


def _whole_memory(job: Job) -> float | None:
    if job.memory_asked is None:
        return None
    if job.memory_per == "cpu":
        return float(job.memory_asked * (job.cpus_asked or 1))
    if job.memory_per == "gpu":
        return float(job.memory_asked * (job.gpus_asked or 1))
    return float(job.memory_asked * (job.nodes_asked or 1))


def differences(job: Job, other: Job) -> tuple[str, ...]:
    """In what the other job differed, in words.

    >>> one = Job(cluster="c", job_id="1", submit=0, memory_asked=8 << 30, cpus_asked=4)
    >>> differences(one, Job(cluster="c", job_id="2", submit=0, memory_asked=16 << 30, cpus_asked=1))
    ('1 CPU instead of 4', '16 GiB instead of 8 GiB')
    """
    said = []
    for unit, mine, theirs in (
        ("node", job.nodes_asked, other.nodes_asked),
        ("CPU", job.cpus_asked, other.cpus_asked),
        ("GPU", job.gpus_asked or 0, other.gpus_asked or 0),
    ):
        if mine != theirs and mine is not None and theirs is not None:
            said.append(f"{count(theirs, unit)} instead of {mine}")
    mine_memory, their_memory = _whole_memory(job), _whole_memory(other)
    if mine_memory != their_memory and mine_memory is not None and their_memory is not None:
        said.append(f"{memory(their_memory)} instead of {memory(mine_memory)}")
    if job.time_limit != other.time_limit and job.time_limit is not None and other.time_limit is not None:
        said.append(f"{duration(other.time_limit)} instead of {duration(job.time_limit)}")
    for word, mine_text, their_text in (
        ("partition", job.partition, other.partition),
        ("QOS", job.qos, other.qos),
    ):
        if mine_text != their_text and their_text is not None:
            said.append(f"{word} {their_text}")
    if _plain(job.name) != _plain(other.name) and other.name is not None:
        said.append(f"named {other.name}")
    if _plain(job.work_dir) != _plain(other.work_dir) and other.work_dir is not None:
        said.append(f"from {other.work_dir}")
    if job.script_hash and other.script_hash and job.script_hash != other.script_hash:
        said.append("with another script")
    return tuple(said)


def tally(found: tuple[SimilarJob, ...], whose: str = "your") -> str | None:
    """How they ended, in one line.

    >>> def ended(**outcomes: int) -> SimilarJob:
    ...     told = {"job_id": "1", "submit": 0, "similarity": 1.0, "outcome": "", "run_time": None}
    ...     return SimilarJob(**told, outcomes=outcomes)
    >>> tally((ended(failed=1), ended(out_of_memory=1), ended(out_of_memory=1), ended(completed=1)))
    'of your 4 most similar jobs 3 failed, 2 of them out of memory'
    >>> tally((ended(failed=3, completed=97), ended(completed=1)))
    'of your 101 most similar jobs (2 submissions) 3 failed'
    """
    if not found:
        return None
    outcomes = Counter[str]()
    for one in found:
        outcomes.update(one.outcomes)
    jobs = outcomes.total()
    failed = sum(number for outcome, number in outcomes.items() if outcome not in NO_FAILURE)
    which = f"{whose} only similar job" if jobs == 1 else f"of {whose} {jobs} most similar jobs"
    if jobs > len(found):
        which += f" ({count(len(found), 'submission')})"
    if not failed:
        return f"{which} {'did not fail' if jobs == 1 else 'none failed'}"
    how = [
        f"{number} of them {words}" if number < failed else f"{'all ' if failed > 1 else ''}{words}"
        for outcome, words in _IN_WORDS.items()
        if (number := outcomes.get(outcome, 0))
    ]
    many = "" if jobs == 1 else "all " if failed == jobs > 2 else f"{failed} "
    return ", ".join([f"{which} {many}failed".replace("  ", " "), *how])
