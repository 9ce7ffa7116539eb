"""How long requests like this one have waited in their partition, by the time limit that they asked for."""

from __future__ import annotations

import polars as pl

from forewarn.job.record import Job
from forewarn.store.base import Store
from forewarn.store.filters import Equal, Missing

DAYS = 30
FEWEST = 30  # jobs on each side, below which a median says little
NEAR = 1.5  # times the limit, and twice this the CPUs, within which a request is like another
COLUMNS = ("submit", "start", "partition", "cpus_asked", "time_limit")


def stored_waits(store: Store, job: Job, at: int, limit: float, smaller: float) -> tuple[float, float] | None:
    """`median_waits` among the jobs that a store has."""
    frames = store.scan(
        cluster=job.cluster,
        since=at - DAYS * 86400,
        until=at,
        columns=COLUMNS,
        where=Equal("partition", job.partition) & ~Missing("start"),
    )
    found = list(frames)
    return median_waits(pl.concat(found), job, at, limit, smaller) if found else None


def median_waits(
    started: pl.DataFrame, job: Job, at: int, limit: float, smaller: float
) -> tuple[float, float] | None:
    """Median waits, in seconds, of recent requests of this size with each limit; None: too few to tell.

    `started` are jobs of its partition that have started (`COLUMNS`).
    """
    cpus = job.cpus_asked or 1
    jobs = started.filter(
        (pl.col("submit") >= at - DAYS * 86400)
        & (pl.col("cpus_asked") >= cpus / (2 * NEAR))
        & (pl.col("cpus_asked") <= cpus * 2 * NEAR)
    )
    found = []
    for about in (limit, smaller):
        like = jobs.filter((pl.col("time_limit") >= about / NEAR) & (pl.col("time_limit") <= about * NEAR))
        wait = (like["start"] - like["submit"]).median()
        if like.height < FEWEST or not isinstance(wait, (int, float)):
            return None
        found.append(float(wait))
    return found[0], found[1]
