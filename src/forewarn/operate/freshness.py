"""How fresh what the store holds is: a verdict on the present needs records of the present."""

from __future__ import annotations

from datetime import UTC, datetime

import polars as pl

from forewarn.errors import UsageError
from forewarn.store.base import Store

STALE = 86400  # seconds without a record after which nothing is said of now


def newest_record(store: Store, cluster: str, now: int) -> int | None:
    """When a cluster was last seen: a job, a node, or the collector's own word."""
    told = int(store.cursor(f"collect {cluster}") or 0)
    if told >= now - STALE:
        return told
    columns = ["cluster", "seen_at"]
    # Where there are jobs of the last month, no older one needs to be looked at.
    for since in (now - 30 * STALE, None):
        frames = [
            *store.scan("node", cluster=cluster, columns=columns),
            *store.scan("job", cluster=cluster, columns=columns, since=since),
        ]
        newest = max((frame.select(pl.col("seen_at").max()).item() or 0 for frame in frames), default=0)
        if newest >= now - 30 * STALE:
            break
    return max(told, newest) or None


def moment_to_judge(store: Store, cluster: str, asked: int | str | None, now: int) -> int:
    """The moment asked for (``last`` is that of the newest record), else now, if it is fresh enough."""
    if isinstance(asked, int):
        return asked
    newest = newest_record(store, cluster, now)
    if newest is None:
        raise UsageError(f"nothing is known of {cluster} yet: `forewarn collect` or `forewarn ingest`")
    if asked is not None:
        return min(newest, now)
    if newest < now - STALE:
        seen = datetime.fromtimestamp(newest, UTC).strftime("%Y-%m-%d %H:%M UTC")
        raise UsageError(
            f"the newest record of {cluster} is from {seen}: nothing can be said of now. `forewarn collect` "
            "reads what is new; --at last judges as of then"
        )
    return now
