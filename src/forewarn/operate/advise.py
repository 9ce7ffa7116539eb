"""Full assessments of live jobs, with advice as commands to run."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace

from forewarn.assess.advice.script_changes import for_job
from forewarn.assess.assessment import Assessment
from forewarn.learn.registry.serving import Serving
from forewarn.operate.predict import PENDING_STATES, LiveJobSelection, OpenAssessor, assess_live
from forewarn.progress import ShowActivity
from forewarn.sources.slurm.scheduler import Scheduler
from forewarn.store.base import Store


def advise(
    store: Store,
    scheduler: Scheduler,
    serving: Serving,
    job_ids: Sequence[str],
    *,
    at: int,
    timezone: str | None = None,
    unknown: list[str] | None = None,
    working: ShowActivity = nullcontext,
    open_assessor: OpenAssessor | None = None,
) -> list[Assessment]:
    """Assess live jobs in full, with advice as commands to run.

    A job that runs can no longer be changed, so its assessment has no advice. For the parameters see
    `operate.predict.assess_live`.
    """
    assessments = assess_live(
        store,
        scheduler,
        serving,
        LiveJobSelection(job_ids=job_ids),
        at=at,
        timezone=timezone,
        full=True,
        unknown=unknown,
        working=working,
        open_assessor=open_assessor,
    )
    return [with_commands(assessment) for assessment in assessments]


def with_commands(assessment: Assessment) -> Assessment:
    """Add commands to the advice about a pending job; a job that runs can no longer be changed."""
    if assessment.state not in PENDING_STATES or assessment.job_id is None:
        return replace(assessment, advice=(), savings=())
    job_id = assessment.job_id
    return replace(
        assessment,
        advice=tuple(for_job(advice, job_id) for advice in assessment.advice),
        savings=tuple(for_job(saving, job_id) for saving in assessment.savings),
    )
