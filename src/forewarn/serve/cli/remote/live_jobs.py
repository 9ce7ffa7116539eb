"""`forewarn predict` and `forewarn advise` with a service."""

from __future__ import annotations

from collections.abc import Sequence

from forewarn.assess.assessment import Assessment
from forewarn.errors import UnknownJobError, UsageError
from forewarn.operate.live_result import LiveResult
from forewarn.serve.client.client import Client

_STATES = ("pending", "running")


def assess_live_jobs_remotely(
    client: Client,
    job_ids: Sequence[str] = (),
    *,
    pending: bool = False,
    running: bool = False,
    user: str | None = None,
) -> LiveResult:
    """Assess pending and running jobs as `assess_live_jobs` does: by id now, else as assessed last."""
    if bool(job_ids) == bool(pending or running or user):
        raise UsageError("name the jobs: either ids, or --pending, --running, -u NAME")
    with client:
        if not job_ids:
            wanted = [state for state, given in zip(_STATES, (pending, running), strict=True) if given]
            return LiveResult(tuple(_newest(client, wanted or list(_STATES), user)))
        assessments: list[Assessment] = []
        unknown: list[str] = []
        for job_id in job_ids:
            try:
                assessments.append(client.advise(job_id))
            except UnknownJobError:
                unknown.append(job_id)
    return LiveResult(tuple(assessments), tuple(unknown))


def _newest(client: Client, states: list[str], user: str | None) -> list[Assessment]:
    """Return the newest assessment of each live job; the service makes one whenever something changes."""
    found: list[Assessment] = []
    after = None
    while True:
        page = client.assessments_page(state=states, user=user, limit=1000, after=after)
        found += page.assessments
        after = page.next
        if after is None:
            return found
