"""How long requests like this one have waited in their partition, by the time limit that they asked for."""

from __future__ import annotations

import polars as pl

from forewarn.job.record import Job
from forewarn.store.base import Store
from forewarn.store.filters import Between, Equal, Missing

DAYS = 30
FEWEST = 30  # jobs on each side, below which a median says little
NEAR = 1.5  # times the limit, and twice this the CPUs, within which a request is like another


def median_waits(store: Store, job: Job, at: int, limit: float, smaller: float) -> tuple[float, float] | None:
    """Median waits, in seconds, of recent requests of this size with each limit; None: too few to tell."""
    cpus = job.cpus_asked or 1
    size = Between("cpus_asked", cpus / (2 * NEAR), cpus * 2 * NEAR)
    frames = list(
        store.scan(
            cluster=job.cluster,
            since=at - DAYS * 86400,
            until=at,
            columns=["submit", "start", "partition", "cpus_asked", "time_limit", "array_job_id"],
            where=Equal("partition", job.partition) & ~Missing("start") & size,
        )
    )
    if not frames:
        return None
    jobs = pl.concat(frames)
    found = []
    for about in (limit, smaller):
        like = jobs.filter((pl.col("time_limit") >= about / NEAR) & (pl.col("time_limit") <= about * NEAR))
        wait = (like["start"] - like["submit"]).median()
        if like.height < FEWEST or not isinstance(wait, (int, float)):
            return None
        found.append(float(wait))
    return found[0], found[1]
