"""Similar earlier jobs of the same user, and their outcomes.

Only the user's own jobs: those of others are private. The similarity is that of the features
(`features/kernel/similarity.py`), extended by GPUs and scripts. The tasks of an array, and equal jobs
submitted within minutes (a bulk), are one decision: one job represents them, with their number.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import polars as pl
from numpy.typing import NDArray

from forewarn.assess.assessment import SimilarJob
from forewarn.assess.codes import DifferenceCode, TallyCode
from forewarn.assess.user_history import UserHistory
from forewarn.evidence import Statement
from forewarn.features.kernel import similarity as weighs
from forewarn.features.keys import normalised, normalised_column, text_hash
from forewarn.job.memory import total_memory
from forewarn.job.outcomes import FailurePolicy, Outcome
from forewarn.job.record import Job

LOOKED_AT = 400  # newest decisions of the user that are compared
LOOKED_AT_JOBS = 2000  # newest jobs of the user that are compared: one array can have more
GAP = 600  # seconds without an equal job after which the next one is a new decision
ENOUGH = 0.35  # least similarity: with three times the CPUs, or another name, a job is not similar
MOST = 14
# Weights of the compared sizes and labels, in the order of `_sizes` and `_labels`.
SIZE_WEIGHTS = np.array([weighs.CPUS, weighs.TIME_LIMIT, weighs.MEMORY, weighs.GPUS])
LABEL_WEIGHTS = np.array([weighs.NAME, weighs.FOLDER, weighs.QUEUE, weighs.SCRIPT])
_SIZES = ("cpus_asked", "nodes_asked", "gpus_asked", "memory_asked", "memory_per", "time_limit")
Floats = NDArray[np.float64]
_COLUMNS = (
    *("cluster", "job_id", "submit", "user", "name", "application", "work_dir", "partition", "qos"),
    *("cpus_asked", "nodes_asked", "gpus_asked", "memory_asked", "memory_per", "time_limit", "array_job_id"),
    *("start", "end", "suspended", "outcome", "script_hash"),
)


@dataclass(frozen=True, slots=True)
class Similar:
    """The most similar jobs in order of similarity, and a tally of their outcomes."""

    jobs: tuple[SimilarJob, ...] = ()
    tally: Statement | None = None
    longest: float | None = None  # run time, of all jobs that were submitted together with these too


@dataclass(frozen=True, slots=True)
class Decisions:
    """A user's newest decisions (an array, a bulk, or a single job), in order of their first job."""

    jobs: pl.DataFrame  # in order of submit
    members: tuple[tuple[int, ...], ...]  # rows of `jobs` of each decision
    sizes: Floats  # of the last job of each decision: logarithms of CPUs, time limit, memory, GPUs
    labels: NDArray[np.uint64]  # hashes of its name, folder, queue and script; 0: missing
    arrays: Floats  # its array job id; NaN: none
    last_submits: NDArray[np.int64]  # its submit time

    def jobs_of(self, selected: Sequence[int]) -> list[list[Job]]:
        """Return the jobs of some decisions, with only the compared fields of their records."""
        rows = [row for decision in selected for row in self.members[decision]]
        jobs = (Job(**row) for row in self.jobs[rows].iter_rows(named=True)) if rows else iter(())
        return [list(islice(jobs, len(self.members[decision]))) for decision in selected]

    def similarity(self, job: Job) -> Floats:
        """Compute the similarity of each decision to a job; 1 means equal in every compared field."""
        sizes, labels = _sizes(job), _labels(job)
        missing = np.isnan(self.sizes), np.isnan(sizes)
        apart = np.where(
            missing[0] | missing[1], weighs.FAR * (missing[0] != missing[1]), np.abs(self.sizes - sizes)
        )
        differ = self.labels != labels
        # Scripts count as different only where both are known.
        differ[:, -1] &= (self.labels[:, -1] != 0) & (labels[-1] != 0)
        return np.asarray(np.exp(-(apart @ SIZE_WEIGHTS) - differ @ LABEL_WEIGHTS))


def similar_jobs(
    history: UserHistory,
    job: Job,
    policy: FailurePolicy,
    *,
    at: int | None = None,
    most: int = MOST,
) -> Similar:
    """Find the user's jobs most similar to this one among those whose outcome was known at a moment.

    Parameters
    ----------
    policy
        The failure policy.
    at
        The moment; by default the submit time of the job.
    """
    rows = history.known(job.user, (job.submit if at is None else at) + 1)
    if job.user is None or rows.start == rows.stop:
        return Similar()
    key = job.user, rows.stop
    earlier = history.decisions.get(key)
    if earlier is None:
        earlier = history.decisions[key] = decisions(history.jobs[rows])
    scores = earlier.similarity(job)
    if job.array_job_id is not None:
        scores = np.where(earlier.arrays == job.array_job_id, 0.0, scores)
    # Equally similar ones: newest first.
    order = np.lexsort((-earlier.last_submits, -scores))[: most + 1]
    ranked = [decision for decision in order if scores[decision] >= ENOUGH]
    similar: list[SimilarJob] = []
    run_times: list[float] = []
    for decision, members in zip(ranked, earlier.jobs_of(ranked), strict=True):
        others = [one for one in members if one.key != job.key]
        if others and len(similar) < most:
            similar.append(_similar_job(job, others, round(float(scores[decision]), 3), policy))
            run_times += [float(other.run_time) for other in others if other.run_time]
    shown = tuple(similar)
    return Similar(shown, tally(shown, policy), max(run_times, default=None))


def _similar_job(job: Job, members: Sequence[Job], score: float, policy: FailurePolicy) -> SimilarJob:
    """Represent a decision by the newest of its jobs that has the most frequent outcome."""
    outcomes = Counter(_outcome(other, policy) for other in members)
    usual, _ = max(outcomes.items(), key=lambda pair: (pair[1], bool(policy.fails(pair[0]))))
    representative = next(other for other in reversed(members) if _outcome(other, policy) == usual)
    return SimilarJob(
        job_id=representative.job_id,
        submit=representative.submit,
        similarity=score,
        outcome=str(usual),
        run_time=representative.run_time,
        differs=differences(job, representative),
        outcomes={str(outcome): number for outcome, number in outcomes.most_common()},
    )


def _outcome(job: Job, policy: FailurePolicy) -> Outcome:
    """Return the outcome; cancelled at its limit is a time-out where the policy counts that (SWF)."""
    outcome = Outcome(job.outcome or Outcome.UNKNOWN)
    is_timeout = outcome is Outcome.CANCELLED and job.ran_to_limit and policy.failed(job)
    return Outcome.TIMEOUT if is_timeout else outcome


def decisions(ended: pl.DataFrame) -> Decisions:
    """Group a user's newest ended jobs into decisions."""
    label = pl.coalesce("application", normalised_column(pl.col("name")))
    folder = normalised_column(pl.col("work_dir"))
    jobs = (
        ended.filter(pl.col("outcome").is_not_null())
        .select(_COLUMNS)
        .sort("submit", "job_id")
        .tail(LOOKED_AT_JOBS)
    )
    array, submit = pl.col("array_job_id"), pl.col("submit")
    request = pl.struct(
        *_SIZES, label.alias("label"), folder.alias("folder"), "partition", "qos", "script_hash"
    )
    same = pl.when(array.is_not_null()).then(pl.struct("array_job_id").hash(1)).otherwise(request.hash())
    rows = jobs.select("array_job_id", "submit", same=same).with_row_index("row")
    gap = (submit - submit.shift().over("same")).fill_null(GAP) >= GAP
    runs = rows.with_columns(run=(gap & array.is_null()).cum_sum().over("same"))
    members = runs.group_by("same", "run", maintain_order=True).agg("row")["row"].tail(LOOKED_AT).to_list()
    last = [own[-1] for own in members]
    shown = jobs[last]
    sizes = np.empty((len(last), len(SIZE_WEIGHTS)))
    labels = np.zeros((len(last), len(LABEL_WEIGHTS)), np.uint64)
    for i, row in enumerate(shown.iter_rows(named=True)):
        one = Job(**row)
        sizes[i], labels[i] = _sizes(one), _labels(one)
    arrays = shown["array_job_id"].cast(pl.Float64).fill_null(np.nan).to_numpy()
    return Decisions(jobs, tuple(map(tuple, members)), sizes, labels, arrays, shown["submit"].to_numpy())


def similarity(job: Job, other: Job) -> float:
    """Compute the similarity of two jobs, between 0 and 1, which means equal in every compared field.

    >>> one = Job(cluster="c", job_id="1", submit=0, name="fit_01", cpus_asked=4)
    >>> round(similarity(one, Job(cluster="c", job_id="2", submit=0, name="fit_07", cpus_asked=8)), 2)
    0.37
    """
    nothing, never = np.zeros(1), np.zeros(1, np.int64)
    sizes, labels = np.array([_sizes(other)]), np.array([_labels(other)])
    return float(Decisions(pl.DataFrame(), ((0,),), sizes, labels, nothing, never).similarity(job)[0])


def _sizes(job: Job) -> list[float]:
    """Return the logarithms of CPUs, time limit, memory and GPUs; NaN for what is not requested."""
    memory = total_memory(job)
    sizes = (job.cpus_asked, job.time_limit, None if memory is None else memory + 1, job.gpus_asked)
    return [math.log2(size) if size else math.nan for size in sizes]


def _labels(job: Job) -> list[int]:
    """Return the hashes of name, folder, queue and script; 0 where missing."""
    name, folder = _label(job), _plain(job.work_dir)
    queue = None if job.partition is None and job.qos is None else f"{job.partition}\n{job.qos}"
    return [0 if label is None else text_hash(label) for label in (name, folder, queue, job.script_hash)]


def _label(job: Job) -> str | None:
    """Return the application where it is recorded, else the name without run numbers."""
    return job.application if job.application is not None else _plain(job.name)


def _plain(text: str | None) -> str | None:
    return None if text is None else normalised(text)


def differences(job: Job, other: Job) -> tuple[Statement, ...]:
    """List what differed in the other job.

    >>> one = Job(cluster="c", job_id="1", submit=0, memory_asked=8 << 30, cpus_asked=4)
    >>> more = differences(one, Job(cluster="c", job_id="2", submit=0, memory_asked=8 << 30, cpus_asked=1))
    >>> [(str(difference.code), difference.values) for difference in more]
    [('other_cpus', {'other': 1, 'this': 4})]
    """
    sizes: tuple[tuple[DifferenceCode, float | None, float | None], ...] = (
        (DifferenceCode.NODES, job.nodes_asked, other.nodes_asked),
        (DifferenceCode.CPUS, job.cpus_asked, other.cpus_asked),
        (DifferenceCode.GPUS, job.gpus_asked or 0, other.gpus_asked or 0),
        (DifferenceCode.MEMORY, total_memory(job), total_memory(other)),
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


def tally(similar: tuple[SimilarJob, ...], policy: FailurePolicy) -> Statement | None:
    """Count jobs, submissions, and failures by outcome.

    >>> def ended(**outcomes: int) -> SimilarJob:
    ...     fields = {"job_id": "1", "submit": 0, "similarity": 1.0, "outcome": "", "run_time": None}
    ...     return SimilarJob(**fields, outcomes=outcomes)
    >>> from forewarn.job.outcomes import POLICIES
    >>> tally((ended(failed=3, completed=97), ended(timeout=1)), POLICIES["wasted"]).values
    {'jobs': 101, 'submissions': 2, 'failed': 4, 'outcomes': ('failed', 'timeout'), 'counts': (3, 1)}
    """
    if not similar:
        return None
    outcomes = Counter[str]()
    for one in similar:
        outcomes.update(one.outcomes)
    failed = {outcome: number for outcome, number in outcomes.items() if policy.fails(Outcome(outcome))}
    return Statement(
        TallyCode.SIMILAR_JOBS,
        {
            "jobs": outcomes.total(),
            "submissions": len(similar),
            "failed": sum(failed.values()),
            "outcomes": tuple(failed),
            "counts": tuple(failed.values()),
        },
    )
