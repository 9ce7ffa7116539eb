"""Explain one job by its id: find it in the store or in Slurm, and say why it failed or is pending.

The explanation itself is made in `assess/post_mortem`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

from forewarn.assess.assessment import Assessment
from forewarn.assess.post_mortem.advice import ResubmitForecast, as_requested_now
from forewarn.assess.post_mortem.explain import explain
from forewarn.assess.post_mortem.find_job import JobLookup, MaySee, everything, find_job
from forewarn.assess.post_mortem.log_reading import Log
from forewarn.errors import (
    ForewarnError,
    SchedulerError,
    SlowAnswerError,
    StoreError,
    UnreachableError,
    UsageError,
)
from forewarn.job.outcomes import POLICIES
from forewarn.job.record import Job
from forewarn.operate.assess_jobs import open_assessor
from forewarn.operate.explanation import Explanation
from forewarn.operate.workspace import Workspace
from forewarn.progress import ShowActivity
from forewarn.sources.slurm.connect import connect
from forewarn.sources.slurm.retry import RetryPolicy
from forewarn.sources.slurm.scheduler import Scheduler
from forewarn.store.base import Store

_TRIES = 2  # few, as a person waits for the answer
LONGEST_WAIT = 15.0  # seconds for which a thread waits for its turn to ask Slurm


def look_up_job(
    workspace: Workspace, job_id: str, *, cluster: str | None = None, may_see: MaySee = everything
) -> JobLookup:
    """Find a job that a caller may see, in the store or in Slurm; raise `UnknownJobError` otherwise."""
    with scheduler_if_any(workspace) as (scheduler, unreachable):
        return find_job(
            job_id,
            store_if_any(workspace),
            scheduler,
            cluster=cluster or workspace.config.cluster,
            unreachable=unreachable,
            may_see=may_see,
        )


def explain_job(
    workspace: Workspace,
    job_id: str,
    *,
    cluster: str | None = None,
    log: Path | Log | None = None,
    reads_logs: bool = True,
    may_see: MaySee = everything,
    sees_all: bool = True,
    working: ShowActivity = nullcontext,
) -> Explanation:
    """Explain why a job failed or is pending.

    Parameters
    ----------
    log
        Its output, if not the file that Slurm names.
    reads_logs
        Whether to read the files that Slurm names.
    may_see
        Whether the caller may see a job; one that it may not see is unknown to it.
    sees_all
        Whether the caller may see others' jobs: else they are counted only where at least five users' are.
    """
    config = workspace.config
    store = store_if_any(workspace)
    found = look_up_job(workspace, job_id, cluster=cluster, may_see=may_see)
    risk = None
    if store is not None and found.job.outcome is None:
        risk = _risk(workspace, found.job, working)
    report = explain(
        found.job,
        store,
        details=found.details,
        log=log,
        reads_logs=reads_logs,
        risk=risk,
        policy=POLICIES[config.policy],
        at=workspace.now(),
        forecast=lambda: resubmit_forecast(workspace, found.job, working),
        sees_all=sees_all,
    )
    clusters = {} if store is None else store.clusters()
    zone = clusters[report.cluster].timezone if report.cluster in clusters else "UTC"
    return Explanation(replace(report, notes=(*report.notes, *found.notes)), found.job, zone)


def _risk(workspace: Workspace, job: Job, working: ShowActivity) -> float | None:
    """Predict the probability of failure of a pending or running job; None without a model."""
    assessment = _assess(workspace, job, working)
    return assessment.failure.probability if assessment and assessment.failure else None


def resubmit_forecast(
    workspace: Workspace, job: Job, working: ShowActivity, at: int | None = None
) -> ResubmitForecast:
    """Predict what an ended job would need if it were submitted again."""
    at = workspace.now() if at is None else at
    assessment = _assess(workspace, as_requested_now(job, at), working, at)
    if assessment is None:
        return ResubmitForecast(memory=None, seconds=None)
    return ResubmitForecast(
        memory=assessment.resources.memory_request if assessment.resources else None,
        seconds=assessment.run_time.seconds.high if assessment.run_time else None,
    )


def _assess(
    workspace: Workspace, job: Job, working: ShowActivity, at: int | None = None
) -> Assessment | None:
    """Assess a job in brief; None where there is no history or model to assess it by."""
    try:
        own = {"cluster": job.cluster, "user": job.user or ""}
        with open_assessor(workspace, **own, at=at, working=working) as assessor:
            return assessor.assess_all([job])[0]
    except ForewarnError:
        return None


def store_if_any(workspace: Workspace) -> Store | None:
    """Open the store; None where there is none, as Slurm alone can be enough."""
    try:
        return workspace.reading()
    except StoreError:
        return None


@contextmanager
def scheduler_if_any(workspace: Workspace) -> Iterator[tuple[Scheduler | None, ForewarnError | None]]:
    """Connect to Slurm, if it is configured or its commands are installed; otherwise yield the error.

    While this process's collector gets no answer, it is not asked: callers would wait for nothing. Of many
    threads one asks at a time.
    """
    config = workspace.config
    if workspace.slurm_trouble is not None:
        yield None, UnreachableError(workspace.slurm_trouble)
        return
    if config.slurmrestd is None and config.scheduler == "auto" and shutil.which("sacct") is None:
        yield None, None
        return
    try:
        connected = connect(config, retry=RetryPolicy(tries=_TRIES))
    except (SchedulerError, UsageError) as error:  # no token, a wrong address: the store may have the job
        yield None, error
        return
    with closing(connected) as scheduler:
        if not workspace.slurm_turn.acquire(timeout=LONGEST_WAIT):
            yield None, SlowAnswerError("Slurm is asked about many other jobs now")
            return
        try:
            yield scheduler, None
        finally:
            workspace.slurm_turn.release()
