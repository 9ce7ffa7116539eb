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
from forewarn.assess.codes import DifferenceCode, TallyCode
from forewarn.evidence import Statement
from forewarn.features.keys import normalised
from forewarn.job.outcomes import Outcome
from forewarn.job.record import Job
from forewarn.store.base import KNOWN_AT, Store

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
NO_FAILURE = frozenset({Outcome.COMPLETED, Outcome.CANCELLED, Outcome.PREEMPTED, Outcome.UNKNOWN})


@dataclass(frozen=True, slots=True)
class Similar:
    """The most similar jobs, the most similar first, and how they ended."""

    jobs: tuple[SimilarJob, ...] = ()
    tally: Statement | None = None


def similar_jobs(store: Store, job: Job, *, as_of: int | None = None, most: int = MOST) -> Similar:
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
    return Similar(found, tally(found))


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
    known = (pl.col("user") == job.user) & pl.col("outcome").is_not_null() & (pl.col(KNOWN_AT) <= moment)
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


def differences(job: Job, other: Job) -> tuple[Statement, ...]:
    """In what the other job differed.

    >>> one = Job(cluster="c", job_id="1", submit=0, memory_asked=8 << 30, cpus_asked=4)
    >>> more = differences(one, Job(cluster="c", job_id="2", submit=0, memory_asked=8 << 30, cpus_asked=1))
    >>> [(str(difference.code), difference.values) for difference in more]
    [('other_cpus', {'other': 1, 'this': 4})]
    """
    sizes: tuple[tuple[DifferenceCode, float | None, float | None], ...] = (
        (DifferenceCode.NODES, job.nodes_asked, other.nodes_asked),
        (DifferenceCode.CPUS, job.cpus_asked, other.cpus_asked),
        (DifferenceCode.GPUS, job.gpus_asked or 0, other.gpus_asked or 0),
        (DifferenceCode.MEMORY, _whole_memory(job), _whole_memory(other)),
        (DifferenceCode.TIME_LIMIT, job.time_limit, other.time_limit),
    )
    found = [
        Statement(code, {"other": theirs, "this": mine})
        for code, mine, theirs in sizes
        if mine != theirs and mine is not None and theirs is not None
    ]
    names = (
        (DifferenceCode.PARTITION, other.partition, job.partition != other.partition),
        (DifferenceCode.QOS, other.qos, job.qos != other.qos),
        (DifferenceCode.NAME, other.name, _plain(job.name) != _plain(other.name)),
        (DifferenceCode.FOLDER, other.work_dir, _plain(job.work_dir) != _plain(other.work_dir)),
    )
    found += [
        Statement(code, {"other": theirs})
        for code, theirs, differs in names
        if differs and theirs is not None
    ]
    if job.script_hash and other.script_hash and job.script_hash != other.script_hash:
        found.append(Statement(DifferenceCode.SCRIPT))
    return tuple(found)


def tally(found: tuple[SimilarJob, ...]) -> Statement | None:
    """How they ended: how many, in how many submissions, how many failed and by which outcome.

    >>> def ended(**outcomes: int) -> SimilarJob:
    ...     told = {"job_id": "1", "submit": 0, "similarity": 1.0, "outcome": "", "run_time": None}
    ...     return SimilarJob(**told, outcomes=outcomes)
    >>> tally((ended(failed=3, completed=97), ended(timeout=1))).values
    {'jobs': 101, 'submissions': 2, 'failed': 4, 'outcomes': ('failed', 'timeout'), 'counts': (3, 1)}
    """
    if not found:
        return None
    outcomes = Counter[str]()
    for one in found:
        outcomes.update(one.outcomes)
    failed = {outcome: number for outcome, number in outcomes.items() if outcome not in NO_FAILURE}
    return Statement(
        TallyCode.SIMILAR_JOBS,
        {
            "jobs": outcomes.total(),
            "submissions": len(found),
            "failed": sum(failed.values()),
            "outcomes": tuple(failed),
            "counts": tuple(failed.values()),
        },
    )
