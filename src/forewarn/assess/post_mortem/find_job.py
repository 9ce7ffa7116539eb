"""Find the job of an id: in the store, else in Slurm; of an array the most informative task."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import polars as pl

from forewarn.assess.post_mortem import wording
from forewarn.errors import ForewarnError, RefusedError, SchedulerError, UnknownJobError, UsageError
from forewarn.job.arrays import split_arrays
from forewarn.job.columns import to_records
from forewarn.job.outcomes import Outcome
from forewarn.job.record import Job
from forewarn.job.units import JobId
from forewarn.sources.slurm.one_job import require_job_id
from forewarn.sources.slurm.scheduler import JobDetails, Scheduler
from forewarn.store.base import Store
from forewarn.store.filters import Equal, Filter

_UNKNOWN_JOB = 2017  # Slurm's ESLURM_INVALID_JOB_ID
MaySee = Callable[[Job], bool]  # whether a caller may see a job
_COMPLETED_OR_LIVE = (Outcome.COMPLETED, None)


@dataclass(frozen=True, slots=True)
class JobLookup:
    """A job, details about it from the scheduler, and notes about the search."""

    job: Job
    details: JobDetails
    notes: tuple[str, ...] = ()


def everything(_: Job) -> bool:
    """Let a caller see every job."""
    return True


def find_job(
    job_id: str,
    store: Store | None,
    scheduler: Scheduler | None,
    *,
    cluster: str | None = None,
    unreachable: ForewarnError | None = None,
    may_see: MaySee = everything,
) -> JobLookup:
    """Find the latest record of a job. Raises `UnknownJobError` where neither store nor Slurm has one.

    A job that the caller may not see is as if it did not exist: Slurm uses ids again, so that an older job
    of the caller may have the same one. Slurm may be unreachable: a record in the store is sufficient.
    `unreachable` is why there is no scheduler.
    """
    asked = require_job_id(job_id)
    trouble = wording.slurm_unreachable(unreachable) if unreachable else None
    jobs = [] if store is None else list(filter(may_see, _stored(store, asked, cluster)))
    waiting_as: dict[str, str] = {}
    # An ended job does not change: Slurm is asked for others only.
    if scheduler is not None and (not jobs or any(job.outcome is None for job in jobs)):
        try:
            if cluster in (None, scheduler.cluster):
                jobs = _newer(jobs, list(filter(may_see, _live(scheduler, asked, waiting_as))))
        except RefusedError as error:
            if error.code != _UNKNOWN_JOB:
                trouble = wording.slurm_refused(error)
        except SchedulerError as error:
            trouble = wording.slurm_unreachable(error)
    if not jobs and unreachable is not None:
        raise unreachable
    if not jobs:
        in_slurm = "" if scheduler is None else " or in Slurm"
        hint = f" ({trouble})" if trouble else ""
        raise UnknownJobError(f"no job {job_id} in the store{in_slurm}{hint}")
    _one_cluster(jobs, job_id)
    notes: list[str] = []
    job = _last_run(jobs, asked, notes)
    details = JobDetails()
    if scheduler is not None and trouble is None:
        try:
            if scheduler.cluster == job.cluster:
                details = scheduler.details(waiting_as.get(job.job_id, job.job_id))
        except SchedulerError as error:
            trouble = wording.slurm_unreachable(error)
    if details.user not in (None, job.user):  # a newer job with this id, of another user
        details = JobDetails()
    return JobLookup(job, details, tuple(note for note in (trouble, *notes) if note is not None))


def tasks_of(array: int) -> Filter:
    """Return the filter for the tasks of an array by its number, with which their ids begin."""
    return Equal("array_job_id", array) | Equal("raw_id", array)


def most_informative(jobs: Iterable[Job]) -> Job:
    """Choose the task of an array to speak about: the first not completed, else one not ended, else any."""
    in_order = sorted(jobs, key=lambda one: (one.array_task_id or 0, one.het_offset or 0, one.job_id))
    incomplete = [job for job in in_order if job.outcome not in _COMPLETED_OR_LIVE]
    live = [job for job in in_order if job.outcome is None]
    return next(iter(incomplete or live or in_order))


def _stored(store: Store, asked: JobId, cluster: str | None) -> list[Job]:
    ids = [asked.job]
    frames = list(store.scan(cluster=cluster, job_ids=ids))
    if not frames and asked.task is None and asked.offset is None:
        frames = list(store.scan(cluster=cluster, where=tasks_of(asked.number)))
    return [job for frame in frames for job in to_records(frame.select(pl.exclude("known_at")), Job)]


def _live(scheduler: Scheduler, asked: JobId, waiting_as: dict[str, str]) -> list[Job]:
    """Ask Slurm for the job; an array that is pending as one record becomes its tasks, as in the store.

    `waiting_as` is filled with the ids by which Slurm knows those tasks.
    """
    found: list[Job] = []
    for batch in scheduler.job(asked.job):
        tasks = to_records(split_arrays(batch.frame), Job)
        for whole in to_records(batch.frame.filter(pl.col("array_tasks").is_not_null()), Job):
            same = (task for task in tasks if task.array_job_id == whole.array_job_id and task.start is None)
            waiting_as |= {task.job_id: whole.job_id for task in same if task.job_id != whole.job_id}
        found += tasks
    if asked.task is not None:
        found = [job for job in found if job.job_id == asked.job] or found
    return found


def _newer(stored: list[Job], live: list[Job]) -> list[Job]:
    """Replace stored records by those that Slurm still has."""
    by_key = {job.key: job for job in stored}
    return list((by_key | {job.key: job for job in live}).values())


def _one_cluster(jobs: list[Job], job_id: str) -> None:
    clusters = sorted({job.cluster for job in jobs})
    if len(clusters) > 1:
        raise UsageError(
            f"job {job_id} exists on several clusters ({', '.join(clusters)}): "
            "name one (-M; in a request, cluster)"
        )


def _last_run(jobs: list[Job], asked: JobId, notes: list[str]) -> Job:
    """Choose the last of several runs, of an array the most informative task; note what else there is."""
    latest: dict[str, Job] = {}
    for job in sorted(jobs, key=lambda one: one.submit):
        latest[job.job_id] = job
    runs = len({job.submit for job in jobs if job.job_id in latest}) - len(
        {j.submit for j in latest.values()}
    )
    job = most_informative(latest.values())
    if len(latest) > 1:
        incomplete = sum(one.outcome not in _COMPLETED_OR_LIVE for one in latest.values())
        live = sum(one.outcome is None for one in latest.values())
        notes.append(wording.parts_of_job(asked.number, len(latest), incomplete, live, job.job_id))
    if runs > 0:
        notes.append(wording.REQUEUED)
    return job
