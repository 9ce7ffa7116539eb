"""Jobs and assessments written into a store, for tests that ask about them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from forewarn.job.columns import to_frame
from forewarn.job.record import Job, Observation
from forewarn.store.base import ASSESSMENT_SCHEMA, ClusterFacts, Store


def write_jobs(
    store: Store, jobs: Iterable[Job], *, seen_at: int | None = None, timezone: str = "UTC"
) -> None:
    """Write the records of jobs: as a log has them, or as seen live at a moment."""
    jobs = list(jobs)
    observations = [
        Observation(
            record=job,
            seen_at=(job.end or job.submit) if seen_at is None else seen_at,
            source="test",
            reconstructed=seen_at is None,
        )
        for job in jobs
    ]
    with store.writing() as writer:
        writer.observe("job", to_frame(observations))
        for cluster in {job.cluster for job in jobs} - set(store.clusters()):
            writer.describe_cluster(cluster, ClusterFacts(timezone))


def write_assessments(store: Store, rows: Iterable[Mapping[str, Any]]) -> None:
    """Save assessments, of which only some columns matter; phase and model have values if not given."""
    nothing = dict.fromkeys(ASSESSMENT_SCHEMA) | {"phase": "submit", "model": "m/1"}
    with store.writing() as writer:
        writer.keep_assessments(
            pl.DataFrame([nothing | dict(row) for row in rows], schema=dict(ASSESSMENT_SCHEMA))
        )
