"""Advice about one job by its id: as commands for a pending job, as options for one that ended."""

from __future__ import annotations

from dataclasses import replace

from forewarn.assess.assessment import Assessment
from forewarn.assess.post_mortem.find_job import MaySee, everything
from forewarn.operate.advise import with_commands
from forewarn.operate.assess_jobs import assess_jobs
from forewarn.operate.explain import look_up_job
from forewarn.operate.workspace import Workspace


def job_advice(
    workspace: Workspace, job_id: str, *, cluster: str | None = None, may_see: MaySee = everything
) -> Assessment:
    """Assess a job in full, with advice; one that ended, as if it were submitted again now."""
    found = look_up_job(workspace, job_id, cluster=cluster, may_see=may_see)
    (assessment,) = assess_jobs(workspace, [found.job], full=True)
    if found.job.outcome is not None:
        return replace(assessment, state=found.job.state)
    return with_commands(assessment)
