"""Why a job failed, or waits, as a person asks for it: from the store, from Slurm, or from both."""

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
from forewarn.operate.assess_jobs import asking
from forewarn.operate.workspace import Workspace
from forewarn.progress import Working
from forewarn.sources.slurm.connect import connect
from forewarn.sources.slurm.retry import RetryPolicy
from forewarn.sources.slurm.scheduler import Scheduler
from forewarn.store.base import Store

_TRIES = 2  # a person waits for the answer


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why, with the job's record and the clock that its times are shown in."""

    report: PostMortem
    job: Job
    timezone: str


def explain_job(
    workspace: Workspace,
    job_id: str,
    *,
    cluster: str | None = None,
    log: Path | None = None,
    working: Working = nullcontext,
) -> Explanation:
    """Explain one job; `log` is its output, where that is not where Slurm says."""
    config = workspace.config
    store = _store(workspace)
    with _scheduler(config) as (scheduler, unreachable):
        asked = cluster or config.cluster
        found = find_job(job_id, store, scheduler, cluster=asked, unreachable=unreachable)
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
    known = {} if store is None else store.clusters()
    zone = known[report.cluster].timezone if report.cluster in known else "UTC"
    return Explanation(replace(report, notes=(*report.notes, *found.notes)), found.job, zone)


def _risk(workspace: Workspace, job: Job, working: Working) -> float | None:
    """How likely a job fails that has not ended, where a model can say it."""
    made = _assessed(workspace, job, working)
    return made.failure.probability if made and made.failure else None


def _forecast(workspace: Workspace, job: Job, working: Working) -> ResubmitForecast:
    """What an ended job needs, were it submitted again, where a model can say it."""
    made = _assessed(workspace, as_requested_now(job, int(time.time())), working)
    return ResubmitForecast(
        memory=made.resources.memory_request if made and made.resources else None,
        seconds=made.run_time.seconds.high if made and made.run_time else None,
    )


def _assessed(workspace: Workspace, job: Job, working: Working) -> Assessment | None:
    """What is said of a job in brief; None where there is nobody to say it."""
    try:
        with asking(workspace, cluster=job.cluster, user=job.user or "", working=working) as assessor:
            return assessor.assess_all([job])[0]
    except ForewarnError:
        return None


def _store(workspace: Workspace) -> Store | None:
    """The store, if there is one: Slurm alone can be enough."""
    try:
        return workspace.reading()
    except StoreError:
        return None


@contextmanager
def _scheduler(config: Config) -> Iterator[tuple[Scheduler | None, ForewarnError | None]]:
    """The scheduler, where one is configured or its commands are here; else why it cannot be asked."""
    if config.slurmrestd is None and config.scheduler == "auto" and shutil.which("sacct") is None:
        yield None, None
        return
    try:
        connected = connect(config, retry=RetryPolicy(tries=_TRIES))
    except (SchedulerError, UsageError) as error:  # no token, a wrong address: the store may know the job
        yield None, error
        return
    with closing(connected) as scheduler:
        yield scheduler, None
