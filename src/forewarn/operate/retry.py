"""Judge whether and how to submit an ended job again: by its id, or by a record that a program has.

The job, its cause and the cluster are found as `forewarn explain` does; the decision is made in
`assess/retry`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from weakref import WeakKeyDictionary

import polars as pl

from forewarn.assess.machine import Machine
from forewarn.assess.post_mortem.advice import MakeForecast, no_forecast
from forewarn.assess.post_mortem.explain import explain
from forewarn.assess.post_mortem.find_job import MaySee, everything
from forewarn.assess.retry.chain import attempt_chain
from forewarn.assess.retry.decide import decide
from forewarn.assess.retry.experience import RetryExperience
from forewarn.assess.retry.resubmissions import COLUMNS, empty_jobs
from forewarn.assess.retry.situation import RetrySituation
from forewarn.assess.retry.verdict import RetryVerdict
from forewarn.job.outcomes import POLICIES, Outcome
from forewarn.job.record import Job
from forewarn.operate.explain import look_up_job, resubmit_forecast, store_if_any
from forewarn.operate.workspace import Workspace
from forewarn.progress import ShowActivity
from forewarn.sources.slurm.one_job import require_job_id
from forewarn.sources.slurm.scheduler import JobDetails
from forewarn.store.base import Store
from forewarn.store.filters import Equal

_DAY = 86_400
# Days of all users' jobs whose resubmissions are counted: until now, and at least so many before the job.
EXPERIENCE_DAYS, BEFORE_JOB = 120, 60
OWN_DAYS = 30  # days of the user's own jobs in which earlier attempts are looked for
FRESH = 600  # seconds for which a long-lived process keeps what it has counted
_OWN = (*COLUMNS, "partition")


def retry_job(
    workspace: Workspace,
    job_id: str,
    *,
    cluster: str | None = None,
    log: Path | None = None,
    reads_logs: bool = True,
    may_see: MaySee = everything,
    sees_all: bool = True,
    working: ShowActivity = nullcontext,
) -> RetryVerdict:
    """Judge a job by its id, from the store or from Slurm; `log` is its output, if not where Slurm says.

    Raises `UnknownJobError` where neither has it, or the caller may not see it. `reads_logs` is whether to
    read the files that Slurm names, `sees_all` whether the caller may see others' jobs.
    """
    found = look_up_job(workspace, job_id, cluster=cluster, may_see=may_see)
    verdict = retry_of(
        workspace,
        found.job,
        details=found.details,
        log=log,
        reads_logs=reads_logs,
        sees_all=sees_all,
        working=working,
    )
    return replace(verdict, notes=(*verdict.notes, *found.notes))


def retry_of(
    workspace: Workspace,
    job: Job,
    *,
    details: JobDetails | None = None,
    log: Path | None = None,
    reads_logs: bool = True,
    at: int | None = None,
    attempts: Sequence[Job] = (),
    sees_all: bool = True,
    working: ShowActivity = nullcontext,
) -> RetryVerdict:
    """Judge a job by its record.

    Parameters
    ----------
    details
        What the scheduler knows beside the record: `Scheduler.details`.
    log
        Its output, if not where Slurm says.
    at
        The Unix time of the question; None is now.
    attempts
        Earlier attempts that the store does not have, such as those that a workflow engine remembers.
    sees_all
        Whether the caller may see others' jobs.
    """
    require_job_id(job.job_id)
    at = workspace.now() if at is None else at
    store = store_if_any(workspace)
    situation = retry_situation(
        store,
        job,
        lambda: _experience(workspace, store, job, at),
        details=details,
        log=log,
        reads_logs=reads_logs,
        at=at,
        attempts=attempts,
        forecast=lambda: resubmit_forecast(workspace, job, working, at),
        policy=workspace.config.policy,
        sees_all=sees_all,
    )
    return decide(situation)


def retry_situation(
    store: Store | None,
    job: Job,
    count: Callable[[], RetryExperience],
    *,
    at: int,
    forecast: MakeForecast = no_forecast,
    details: JobDetails | None = None,
    log: Path | None = None,
    reads_logs: bool = True,
    attempts: Sequence[Job] = (),
    policy: str = "wasted",
    sees_all: bool = True,
) -> RetrySituation:
    """Gather what a verdict needs; `count` counts the cluster's resubmissions, only where they matter."""
    report = explain(
        job,
        store,
        details=details,
        log=log,
        reads_logs=reads_logs,
        at=at,
        policy=POLICIES[policy],
        sees_all=sees_all,
    )
    if store is None or job.outcome is None or job.outcome == Outcome.COMPLETED:
        return RetrySituation(
            job=job,
            report=report,
            experience=RetryExperience.none(),
            chain=attempt_chain(empty_jobs(), job, attempts),
            make_forecast=forecast,
        )
    own = _own_jobs(store, job)
    return RetrySituation(
        job=job,
        report=report,
        experience=count(),
        chain=attempt_chain(own, job, attempts),
        make_forecast=forecast,
        machine=Machine(store, job.cluster, at),
        may_use=lambda: {name for name in own["partition"].unique() if name},
    )


def _own_jobs(store: Store, job: Job) -> pl.DataFrame:
    """Read the jobs of the user before this one."""
    if job.user is None:
        return empty_jobs(_OWN)
    since = job.submit - OWN_DAYS * _DAY
    frames = store.scan(
        cluster=job.cluster,
        since=since,
        until=job.submit + 1,
        columns=_OWN,
        where=Equal("user", job.user),
    )
    return pl.concat([empty_jobs(_OWN), *(frame.select(_OWN) for frame in frames)])


# --- what became of earlier retries --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Counted:
    """The experience of one cluster, when it was counted, and over which jobs."""

    at: int
    since: int
    experience: RetryExperience


_counted: WeakKeyDictionary[Workspace, dict[str, _Counted]] = WeakKeyDictionary()
_lock = threading.Lock()


def _experience(workspace: Workspace, store: Store | None, job: Job, at: int) -> RetryExperience:
    """Count the resubmissions of a cluster; a long-lived process does so every few minutes."""
    if store is None:
        return RetryExperience.none()
    cluster, since = job.cluster, job.submit - BEFORE_JOB * _DAY
    with _lock:
        by_cluster = _counted.setdefault(workspace, {})
    known = by_cluster.get(cluster)
    if workspace.long_lived and known and known.since <= since and 0 <= at - known.at < FRESH:
        return known.experience
    since = min(since, at - EXPERIENCE_DAYS * _DAY)
    experience = count_resubmissions(store, cluster, since, at)
    by_cluster[cluster] = _Counted(at, since, experience)
    return experience


def drop_counted(workspace: Workspace) -> None:
    """Drop what was counted for a workspace."""
    with _lock:
        _counted.pop(workspace, None)


def count_resubmissions(store: Store, cluster: str, since: int, until: int) -> RetryExperience:
    """Count the resubmissions among the jobs that were submitted in a period."""
    frames = store.scan(cluster=cluster, since=since, until=until + 1, columns=COLUMNS)
    return RetryExperience.of(pl.concat([empty_jobs(), *(frame.select(COLUMNS) for frame in frames)]))
