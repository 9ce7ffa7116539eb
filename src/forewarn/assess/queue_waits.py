"""Median queue waits of recent, similar requests in a partition, by their time limit."""

from __future__ import annotations

import polars as pl

from forewarn.job.record import Job
from forewarn.store.base import Store
from forewarn.store.filters import Equal, Missing

DAYS = 30
FEWEST = 30  # jobs for each time limit, below which a median is not reliable
NEAR = 1.5  # ratio of the time limits within which requests are similar; for CPUs twice as much
COLUMNS = ("submit", "start", "partition", "cpus_asked", "time_limit")


def stored_waits(store: Store, job: Job, at: int, limit: float, smaller: float) -> tuple[float, float] | None:
    """Compute `median_waits` over the jobs in a store."""
    frames = store.scan(
        cluster=job.cluster,
        since=at - DAYS * 86400,
        until=at,
        columns=COLUMNS,
        where=Equal("partition", job.partition) & ~Missing("start"),
    )
    batches = list(frames)
    return median_waits(pl.concat(batches), job, at, limit, smaller) if batches else None


def median_waits(
    started: pl.DataFrame, job: Job, at: int, limit: float, smaller: float
) -> tuple[float, float] | None:
    """Compute the median waits in seconds of recent requests of this size with each limit; None: too few.

    `started` holds the started jobs of the partition (`COLUMNS`).
    """
    cpus = job.cpus_asked or 1
    jobs = started.filter(
        (pl.col("submit") >= at - DAYS * 86400)
        & (pl.col("cpus_asked") >= cpus / (2 * NEAR))
        & (pl.col("cpus_asked") <= cpus * 2 * NEAR)
    )
    waits = []
    for near in (limit, smaller):
        similar = jobs.filter((pl.col("time_limit") >= near / NEAR) & (pl.col("time_limit") <= near * NEAR))
        wait = (similar["start"] - similar["submit"]).median()
        if similar.height < FEWEST or not isinstance(wait, (int, float)):
            return None
        waits.append(float(wait))
    return waits[0], waits[1]
