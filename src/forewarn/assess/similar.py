"""Earlier jobs of the same user that were much like this one, and what became of them.

Only the user's own: others' jobs are private. The same measure as the features have
(`features/kernel/similarity.py`), and GPUs and scripts besides. The tasks of an array, and
equal jobs that were sent within minutes, are one decision: one of them is told of, with how many there were.
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

LOOKED_AT = 400  # of the user's newest decisions
LOOKED_AT_JOBS = 2000  # of the newest jobs: one array can have more
GAP = 600  # seconds without an equal job after which the next one is another decision
ENOUGH = 0.35  # similarity below which a job is another one: three times the CPUs, or another name
MOST = 14
# What is compared, and how much it weighs: the sizes and labels of a job, as below.
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
    """The most similar jobs, the most similar first, and how they ended."""

    jobs: tuple[SimilarJob, ...] = ()
    tally: Statement | None = None


@dataclass(frozen=True, slots=True)
class Decisions:
    """A user's newest decisions, in order of their first job: an array, a bulk, or a single job."""

    jobs: pl.DataFrame  # in order of submit
    members: tuple[tuple[int, ...], ...]  # the rows of each
    sizes: Floats  # of the last job of each: logarithms of CPUs, time limit, memory, GPUs
    labels: NDArray[np.uint64]  # hashes of its name, folder, queue and script; 0: it has none
    arrays: Floats  # the array that it is of; NaN: none
    last_submits: NDArray[np.int64]  # of the last job of each

    def jobs_of(self, places: Sequence[int]) -> list[list[Job]]:
        """The jobs of some decisions. Of their records only what is compared is there."""
        rows = [row for place in places for row in self.members[place]]
        jobs = (Job(**row) for row in self.jobs[rows].iter_rows(named=True)) if rows else iter(())
        return [list(islice(jobs, len(self.members[place]))) for place in places]

    def similarity(self, job: Job) -> Floats:
        """How much each is like a job: 1 is equal in all that is compared."""
        sizes, labels = _sizes(job), _labels(job)
        missing = np.isnan(self.sizes), np.isnan(sizes)
        apart = np.where(
            missing[0] | missing[1], weighs.FAR * (missing[0] != missing[1]), np.abs(self.sizes - sizes)
        )
        differ = self.labels != labels
        # Of a script nothing is said unless both are known.
        differ[:, -1] &= (self.labels[:, -1] != 0) & (labels[-1] != 0)
        return np.asarray(np.exp(-(apart @ SIZE_WEIGHTS) - differ @ LABEL_WEIGHTS))


def similar_jobs(
    past: UserHistory,
    job: Job,
    policy: FailurePolicy,
    *,
    as_of: int | None = None,
    most: int = MOST,
) -> Similar:
    """What became of the user's jobs most like this one, as far as that was known at a moment.

    Parameters
    ----------
    policy
        What counts as a failure.
    as_of
        The moment; without it, the job's submit.
    """
    known = past.known(job.user, (job.submit if as_of is None else as_of) + 1)
    if job.user is None or known.start == known.stop:
        return Similar()
    key = job.user, known.stop
    made = past.decisions.get(key)
    if made is None:
        made = past.decisions[key] = decisions(past.jobs[known])
    alike = made.similarity(job)
    if job.array_job_id is not None:
        alike = np.where(made.arrays == job.array_job_id, 0.0, alike)
    # Of equally similar ones the newest first.
    ranked = [
        place for place in np.lexsort((-made.last_submits, -alike))[: most + 1] if alike[place] >= ENOUGH
    ]
    told = []
    for place, together in zip(ranked, made.jobs_of(ranked), strict=True):
        if others := [one for one in together if one.key != job.key]:
            told.append(_told(job, others, round(float(alike[place]), 3), policy))
    found = tuple(told[:most])
    return Similar(found, tally(found, policy))


def _told(job: Job, together: Sequence[Job], alike: float, policy: FailurePolicy) -> SimilarJob:
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


def _outcome(job: Job, policy: FailurePolicy) -> Outcome:
    """How it ended; cancelled at its limit, where the policy counts that, it ended at its limit (SWF)."""
    outcome = Outcome(job.outcome or Outcome.UNKNOWN)
    is_timeout = outcome is Outcome.CANCELLED and job.ran_to_limit and policy.failed(job)
    return Outcome.TIMEOUT if is_timeout else outcome


def decisions(ended: pl.DataFrame) -> Decisions:
    """A user's newest ended jobs, those together that are one decision."""
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
    for place, row in enumerate(shown.iter_rows(named=True)):
        one = Job(**row)
        sizes[place], labels[place] = _sizes(one), _labels(one)
    arrays = shown["array_job_id"].cast(pl.Float64).fill_null(np.nan).to_numpy()
    return Decisions(jobs, tuple(map(tuple, members)), sizes, labels, arrays, shown["submit"].to_numpy())


def similarity(job: Job, other: Job) -> float:
    """Between 0 and 1, which is equal in all that is compared.

    >>> one = Job(cluster="c", job_id="1", submit=0, name="fit_01", cpus_asked=4)
    >>> round(similarity(one, Job(cluster="c", job_id="2", submit=0, name="fit_07", cpus_asked=8)), 2)
    0.37
    """
    nothing, never = np.zeros(1), np.zeros(1, np.int64)
    sizes, labels = np.array([_sizes(other)]), np.array([_labels(other)])
    return float(Decisions(pl.DataFrame(), ((0,),), sizes, labels, nothing, never).similarity(job)[0])


def _sizes(job: Job) -> list[float]:
    """Logarithms of CPUs, time limit, memory and GPUs; NaN for what is not asked for."""
    memory = total_memory(job)
    asked = (job.cpus_asked, job.time_limit, None if memory is None else memory + 1, job.gpus_asked)
    return [math.log2(size) if size else math.nan for size in asked]


def _labels(job: Job) -> list[int]:
    """Hashes of name, folder, queue and script; 0 for none."""
    name, folder = _label(job), _plain(job.work_dir)
    queue = None if job.partition is None and job.qos is None else f"{job.partition}\n{job.qos}"
    return [0 if label is None else text_hash(label) for label in (name, folder, queue, job.script_hash)]


def _label(job: Job) -> str | None:
    """The program where that is recorded, else the name without run numbers."""
    return job.application if job.application is not None else _plain(job.name)


def _plain(text: str | None) -> str | None:
    return None if text is None else normalised(text)


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


def tally(found: tuple[SimilarJob, ...], policy: FailurePolicy) -> Statement | None:
    """How they ended: how many, in how many submissions, how many failed and by which outcome.

    >>> def ended(**outcomes: int) -> SimilarJob:
    ...     told = {"job_id": "1", "submit": 0, "similarity": 1.0, "outcome": "", "run_time": None}
    ...     return SimilarJob(**told, outcomes=outcomes)
    >>> from forewarn.job.outcomes import POLICIES
    >>> tally((ended(failed=3, completed=97), ended(timeout=1)), POLICIES["wasted"]).values
    {'jobs': 101, 'submissions': 2, 'failed': 4, 'outcomes': ('failed', 'timeout'), 'counts': (3, 1)}
    """
    if not found:
        return None
    outcomes = Counter[str]()
    for one in found:
        outcomes.update(one.outcomes)
    failed = {outcome: number for outcome, number in outcomes.items() if policy.fails(Outcome(outcome))}
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
