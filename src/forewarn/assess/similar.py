"""Earlier jobs of the same user that were much like this one, and what became of them.

Only the user's own: others' jobs are private. The same measure as the features have
(`features/kernel/similarity.py`), and GPUs and scripts besides. The tasks of an array, and
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
from forewarn.features.kernel import similarity as weighs
from forewarn.features.keys import normalised
from forewarn.job.memory import total_memory
from forewarn.job.outcomes import Outcome, Policy
from forewarn.job.record import Job
from forewarn.store.base import KNOWN_AT, Store

LOOKED_AT = 400  # of the user's newest decisions
LOOKED_AT_JOBS = 2000  # of the newest jobs: one array can have more
GAP = 600  # seconds without an equal job after which the next one is another decision
ENOUGH = 0.35  # similarity below which a job is another one: three times the CPUs, or another name
MOST = 14
_DAY = 86_400
_COLUMNS = (
    *("cluster", "job_id", "submit", "user", "name", "application", "work_dir", "partition", "qos"),
    *("cpus_asked", "nodes_asked", "gpus_asked", "memory_asked", "memory_per", "time_limit", "array_job_id"),
    *("start", "end", "suspended", "outcome", "script_hash"),
)
_IN_WORDS = {
    Outcome.OUT_OF_MEMORY: "out of memory",
    Outcome.TIMEOUT: "at their time limit",
    Outcome.NODE_FAIL: "as a node failed",
    Outcome.DEADLINE: "at their deadline",
    Outcome.BOOT_FAIL: "as a node did not boot",
}


@dataclass(frozen=True, slots=True)
class Similar:
    """The most similar jobs, the most similar first, and how they ended in one line."""

    jobs: tuple[SimilarJob, ...] = ()
    tally: str | None = None  # of your 14 most similar jobs 9 failed, 6 of them out of memory


def similar_jobs(
    store: Store,
    job: Job,
    policy: Policy,
    *,
    as_of: int | None = None,
    most: int = MOST,
    whose: str = "your",
) -> Similar:
    """What became of the user's jobs most like this one, as far as that was known at a moment.

    Parameters
    ----------
    policy
        What counts as a failure.
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
        _told(job, together, round(alike, 3), policy) for alike, together in ranked[:most] if alike >= ENOUGH
    )
    return Similar(found, tally(found, policy, whose))


def _told(job: Job, together: Sequence[Job], alike: float, policy: Policy) -> SimilarJob:
    """One decision, told by the newest of its jobs that ended as most of them did."""
    outcomes = Counter(_outcome(other, policy) for other in together)
    usual, _ = max(outcomes.items(), key=lambda pair: (pair[1], bool(policy.fails(pair[0]))))
    speaker = next(other for other in reversed(together) if _outcome(other, policy) == usual)
    return SimilarJob(
        job_id=speaker.job_id,
        submit=speaker.submit,
        similarity=alike,
        outcome=str(usual),
        run_time=max((other.run_time for other in together if other.run_time is not None), default=None),
        differs=differences(job, speaker),
        outcomes={str(outcome): number for outcome, number in outcomes.most_common()},
    )


def _outcome(job: Job, policy: Policy) -> Outcome:
    """How it ended; cancelled at its limit, where the policy counts that, it ended at its limit (SWF)."""
    outcome = Outcome(job.outcome or Outcome.UNKNOWN)
    is_timeout = outcome is Outcome.CANCELLED and job.ran_to_limit and policy.failed(job)
    return Outcome.TIMEOUT if is_timeout else outcome


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
    return (*sizes, _label(job), _plain(job.work_dir), job.partition, job.qos, job.script_hash)


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
    distance = weighs.CPUS * _apart(job.cpus_asked, other.cpus_asked)
    distance += weighs.TIME_LIMIT * _apart(job.time_limit, other.time_limit)
    distance += weighs.MEMORY * _apart(_and_a_byte(job), _and_a_byte(other))
    distance += weighs.GPUS * _apart(job.gpus_asked, other.gpus_asked)
    distance += weighs.NAME * (_label(job) != _label(other))
    distance += weighs.FOLDER * (_plain(job.work_dir) != _plain(other.work_dir))
    distance += weighs.QUEUE * ((job.partition, job.qos) != (other.partition, other.qos))
    if job.script_hash and other.script_hash:
        distance += weighs.SCRIPT * (job.script_hash != other.script_hash)
    return math.exp(-distance)


def _label(job: Job) -> str | None:
    """The program where that is recorded, else the name without run numbers."""
    return job.application if job.application is not None else _plain(job.name)


def _plain(text: str | None) -> str | None:
    return None if text is None else normalised(text)


def _apart(one: float | None, other: float | None) -> float:
    """How far two sizes are apart, in powers of two; missing against present is far."""
    if not one or not other:
        return 0.0 if not one and not other else weighs.FAR
    return abs(math.log2(one / other))


def _and_a_byte(job: Job) -> int | None:
    total = total_memory(job)
    return None if total is None else total + 1


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
    mine_memory, their_memory = total_memory(job), total_memory(other)
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


def tally(found: tuple[SimilarJob, ...], policy: Policy, whose: str = "your") -> str | None:
    """How they ended, in one line.

    >>> def ended(**outcomes: int) -> SimilarJob:
    ...     told = {"job_id": "1", "submit": 0, "similarity": 1.0, "outcome": "", "run_time": None}
    ...     return SimilarJob(**told, outcomes=outcomes)
    >>> from forewarn.job.outcomes import POLICIES
    >>> wasted = POLICIES["wasted"]
    >>> tally((ended(failed=1), ended(out_of_memory=1), ended(out_of_memory=1), ended(completed=1)), wasted)
    'of your 4 most similar jobs 3 failed, 2 of them out of memory'
    >>> tally((ended(failed=3, completed=97), ended(completed=1)), wasted)
    'of your 101 most similar jobs (2 submissions) 3 failed'
    """
    if not found:
        return None
    outcomes = Counter[str]()
    for one in found:
        outcomes.update(one.outcomes)
    jobs = outcomes.total()
    failed = sum(number for outcome, number in outcomes.items() if policy.fails(Outcome(outcome)))
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
