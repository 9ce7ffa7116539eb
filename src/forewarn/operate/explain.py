"""Explain one job by its id: find it in the store or in Slurm, and say why it failed or is pending.

The explanation itself is made in `assess/post_mortem`.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from forewarn.assess.assessment import Assessment
from forewarn.assess.post_mortem import explain
from forewarn.assess.post_mortem.advice import ResubmitForecast, as_requested_now
from forewarn.assess.post_mortem.find_job import find_job
from forewarn.assess.post_mortem.report import PostMortem
from forewarn.config import Config
from forewarn.errors import ForewarnError, SchedulerError, StoreError, UsageError
from forewarn.job.outcomes import POLICIES
from forewarn.job.record import Job
from forewarn.operate.assess_jobs import open_assessor
from forewarn.operate.workspace import Workspace
from forewarn.progress import ShowActivity
from forewarn.sources.slurm.connect import connect
from forewarn.sources.slurm.retry import RetryPolicy
from forewarn.sources.slurm.scheduler import Scheduler
from forewarn.store.base import Store

_TRIES = 2  # few, as a person waits for the answer


@dataclass(frozen=True, slots=True)
class Explanation:
    """A post-mortem with the job's record and the time zone of its cluster."""

    report: PostMortem
    job: Job
    timezone: str


def explain_job(
    workspace: Workspace,
    job_id: str,
    *,
    cluster: str | None = None,
    log: Path | None = None,
    working: ShowActivity = nullcontext,
) -> Explanation:
    """Explain why a job failed or is pending; `log` is its output file, if not the one that Slurm names."""
    config = workspace.config
    store = _store(workspace)
    with _scheduler(config) as (scheduler, unreachable):
        found = find_job(job_id, store, scheduler, cluster=cluster or config.cluster, unreachable=unreachable)
        risk = None
        if store is not None and found.job.outcome is None:
            risk = _risk(workspace, found.job, working)
        report = explain(
            found.job,
            store,
            details=found.details,
            log=log,
            risk=risk,
            policy=POLICIES[config.policy],
            forecast=lambda: _forecast(workspace, found.job, working),
        )
    clusters = {} if store is None else store.clusters()
    zone = clusters[report.cluster].timezone if report.cluster in clusters else "UTC"
    return Explanation(replace(report, notes=(*report.notes, *found.notes)), found.job, zone)


def _risk(workspace: Workspace, job: Job, working: ShowActivity) -> float | None:
    """Predict the probability of failure of a pending or running job; None without a model."""
    assessment = _assess(workspace, job, working)
    return assessment.failure.probability if assessment and assessment.failure else None


def _forecast(workspace: Workspace, job: Job, working: ShowActivity) -> ResubmitForecast:
    """Predict what an ended job would need if it were submitted again."""
    assessment = _assess(workspace, as_requested_now(job, int(time.time())), working)
    if assessment is None:
        return ResubmitForecast(memory=None, seconds=None)
    return ResubmitForecast(
        memory=assessment.resources.memory_request if assessment.resources else None,
        seconds=assessment.run_time.seconds.high if assessment.run_time else None,
    )


def _assess(workspace: Workspace, job: Job, working: ShowActivity) -> Assessment | None:
    """Assess a job in brief; None where there is no history or model to assess it by."""
    try:
        with open_assessor(workspace, cluster=job.cluster, user=job.user or "", working=working) as assessor:
            return assessor.assess_all([job])[0]
    except ForewarnError:
        return None


def _store(workspace: Workspace) -> Store | None:
    """Open the store; None where there is none, as Slurm alone can be enough."""
    try:
        return workspace.reading()
    except StoreError:
        return None


@contextmanager
def _scheduler(config: Config) -> Iterator[tuple[Scheduler | None, ForewarnError | None]]:
    """Connect to Slurm, if it is configured or its commands are installed; otherwise yield the error."""
    if config.slurmrestd is None and config.scheduler == "auto" and shutil.which("sacct") is None:
        yield None, None
        return
    try:
        connected = connect(config, retry=RetryPolicy(tries=_TRIES))
    except (SchedulerError, UsageError) as error:  # no token, a wrong address: the store may have the job
        yield None, error
        return
    with closing(connected) as scheduler:
        yield scheduler, None
