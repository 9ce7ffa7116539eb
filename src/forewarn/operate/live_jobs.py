"""Assess pending and running jobs of the configured Slurm on request: by id, or all that match.

This connects to Slurm and opens the store; the assessment itself is in `predict.py` (in brief) and
`advise.py` (in full).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing, nullcontext
from typing import Any

from forewarn.assess.assessment import Assessment
from forewarn.errors import UsageError
from forewarn.learn.registry.serving import Serving
from forewarn.operate.advise import advise
from forewarn.operate.engine import Engine
from forewarn.operate.live_result import LiveResult
from forewarn.operate.predict import (
    LiveJobSelection,
    assess_live,
    delete_old_assessments,
    open_live_store,
)
from forewarn.operate.workspace import Workspace
from forewarn.progress import ShowActivity
from forewarn.sources.slurm.connect import connect
from forewarn.store.opening import location_of


def assess_live_jobs(
    workspace: Workspace,
    job_ids: Sequence[str] = (),
    *,
    pending: bool = False,
    running: bool = False,
    user: str | None = None,
    full: bool = False,
    working: ShowActivity = nullcontext,
) -> LiveResult:
    """Assess pending and running jobs: in brief, or in full with advice as commands to run."""
    if bool(job_ids) == bool(pending or running or user):
        raise UsageError("name the jobs: either ids, or --pending, --running, -u NAME")
    config, at = workspace.config, workspace.now()
    serving = Serving(config.home / "models")
    unknown: list[str] = []
    zone = config.of_cluster(config.cluster).timezone
    how: dict[str, Any] = {"at": at, "timezone": zone, "unknown": unknown, "working": working}
    if workspace.long_lived and config.model is None and location_of(config).may_write:
        how["open_assessor"] = lambda cluster: _followed(workspace.engine(cluster)).open_assessor(at)
    with (
        closing(connect(config)) as scheduler,
        open_live_store(config, scheduler.cluster, serving, at=at) as store,
    ):
        if full:
            assessments = advise(store, scheduler, serving, job_ids, **how)
        else:
            selection = LiveJobSelection(job_ids=job_ids, pending=pending, running=running, user=user)
            assessments = assess_live(store, scheduler, serving, selection, **how)
        if store.may_write:
            delete_old_assessments(store, scheduler.cluster, at - config.assessments_kept * 86400)
    return LiveResult(tuple(assessments), tuple(unknown), _unserved(assessments, serving))


def _followed(engine: Engine) -> Engine:
    """Update the engine with the jobs that were written just now, and return it."""
    engine.follow()
    return engine


def _unserved(assessments: Sequence[Assessment], serving: Serving) -> str | None:
    if any(one.failure or one.route.model for one in assessments):
        return None
    served = {name.cluster for name in serving.names()}
    return next(
        (one.cluster for one in assessments if one.phase != "ended" and one.cluster not in served), None
    )
