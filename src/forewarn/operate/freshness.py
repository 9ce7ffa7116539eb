"""Check how fresh the store is: an assessment of the current state needs current records."""

from __future__ import annotations

import polars as pl

from forewarn.errors import UsageError
from forewarn.formatting import timestamp
from forewarn.store.base import Store

STALE = 86400  # seconds without a record after which the current state is unknown


def newest_record_time(store: Store, cluster: str, at: int) -> int | None:
    """Return when a cluster was last observed: by the collector, or in a record of a job or node."""
    collected = int(store.cursor(f"collect {cluster}") or 0)
    if collected >= at - STALE:
        return collected
    columns = ["cluster", "seen_at"]
    # If the last month has jobs, the older ones need not be read.
    for since in (at - 30 * STALE, None):
        frames = [
            *store.scan("node", cluster=cluster, columns=columns),
            *store.scan("job", cluster=cluster, columns=columns, since=since),
        ]
        newest = max((frame.select(pl.col("seen_at").max()).item() or 0 for frame in frames), default=0)
        if newest >= at - 30 * STALE:
            break
    return max(collected, newest) or None


def health_time(store: Store, cluster: str, at: int | str | None, now: int) -> int:
    """Return the moment at which to judge the nodes of a cluster.

    `at` is a Unix time, ``last`` for the time of the newest record, or None for `now`, which raises
    `UsageError` if the store is not fresh enough.
    """
    if isinstance(at, int):
        return at
    newest = newest_record_time(store, cluster, now)
    if newest is None:
        raise UsageError(
            f"the store has no records of {cluster}; run `forewarn collect` or `forewarn ingest` first"
        )
    if at is not None:
        return min(newest, now)
    if newest < now - STALE:
        observed = timestamp(newest, "UTC", name_zone=True)
        raise UsageError(
            f"the newest record of {cluster} is from {observed}, so its current state is unknown. Run "
            "`forewarn collect` to read what is new, or use --at last for the state at that time"
        )
    return now
