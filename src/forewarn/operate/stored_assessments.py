"""Read the assessments of live jobs that were saved in the store."""

from __future__ import annotations

import json

from forewarn.assess.assessment import Assessment
from forewarn.job.moments import Moment, unix_seconds
from forewarn.store.base import Store


def read_assessments(
    store: Store,
    *,
    cluster: str | None = None,
    job_id: str | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
) -> list[Assessment]:
    """Read the assessments made in [since, until), oldest first, without those of other schema versions."""
    frame = store.assessments(
        cluster=cluster,
        job_id=job_id,
        since=None if since is None else unix_seconds(since),
        until=None if until is None else unix_seconds(until),
        columns=["body"],
    )
    bodies = (json.loads(body) for body in frame["body"] if body)
    return [
        Assessment.from_json(body)
        for body in bodies
        if body.get("schema_version") == Assessment.schema_version
    ]
