"""Read the assessments of live jobs that were saved in the store."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from forewarn.assess.assessment import Assessment
from forewarn.job.columns import KEYS
from forewarn.job.moments import Moment, unix_seconds
from forewarn.operate.job_list import ListedJob
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


def newest_assessments(store: Store, jobs: Sequence[ListedJob]) -> list[Assessment]:
    """Read the newest assessment of each listed job, in the order of the list, without other versions'."""
    made_at = {_key(job.job): job.assessment["made_at"] for job in jobs if job.assessment is not None}
    if not made_at:
        return []
    frame = store.assessments(
        since=min(made_at.values()), until=max(made_at.values()) + 1, columns=[*KEYS["job"], "body"]
    )
    # Those of a job are in the order of time, so the newest of its bodies stays.
    bodies = {_key(row): row["body"] for row in frame.iter_rows(named=True) if row["body"]}
    found = (json.loads(bodies[key]) for key in made_at if key in bodies)
    return [
        Assessment.from_json(body)
        for body in found
        if body.get("schema_version") == Assessment.schema_version
    ]


def _key(job: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(job[name] for name in KEYS["job"])
