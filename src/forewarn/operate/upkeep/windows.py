"""A cluster's history in short stretches, so that a deletion never blocks other writers for long."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import polars as pl

from forewarn.features.state_store import clear
from forewarn.job.columns import KEYS, SCHEMAS
from forewarn.operate.upkeep.patience import writing_patiently
from forewarn.store.base import Store, StoreWriter
from forewarn.store.filters import Filter

_ALWAYS = -(1 << 62)  # before any submit
WINDOW_JOBS = 250_000  # jobs of one stretch: about one segment


def windows(store: Store, cluster: str, until: int | None = None) -> list[tuple[int, int]]:
    """Return ranges of submit times, since ≤ submit < until, with some jobs each."""
    ends = [
        int(frame["submit"][-1]) + 1
        for frame in store.scan(cluster=cluster, columns=["submit"], until=until, rows=WINDOW_JOBS)
        if frame.height
    ]
    return [(begin, end) for begin, end in pairwise([_ALWAYS, *ends]) if begin < end]


def job_keys(store: Store, cluster: str, where: Filter, since: int, until: int) -> pl.DataFrame:
    """Return the keys of jobs that pass a filter, submitted in a range of time."""
    columns = KEYS["job"]
    frames = store.scan(cluster=cluster, columns=columns, where=where, since=since, until=until)
    return pl.concat([pl.DataFrame(schema={name: SCHEMAS["job"][name] for name in columns}), *frames])


def program_keys(store: Store, cluster: str, where: Filter) -> pl.DataFrame:
    """Return the keys of program runs that pass a filter."""
    columns = KEYS["program"]
    frames = store.scan("program", cluster=cluster, columns=columns, where=where)
    return pl.concat([pl.DataFrame(schema={name: SCHEMAS["program"][name] for name in columns}), *frames])


def drop_computed(writer: StoreWriter, cluster: str) -> None:
    """Delete what was computed from the history: the online state is rebuilt from what is left of it."""
    clear(writer, cluster)
    writer.drop_cursor(f"health {cluster}")


def forget_jobs(store: Store, cluster: str, where: Filter, until: int | None = None) -> Iterator[int]:
    """Delete jobs that pass a filter, with their usage, stretch by stretch; yield how many each time."""
    for since, end in windows(store, cluster, until):
        revision = store.revision(cluster=cluster)
        keys = job_keys(store, cluster, where, since, end)
        if keys.is_empty():
            continue  # without making others wait
        with writing_patiently(store) as writer:
            if store.revision(cluster=cluster) != revision:  # somebody wrote in between
                keys = job_keys(store, cluster, where, since, end)
            writer.forget("usage", keys)
            count = writer.forget("job", keys)
            drop_computed(writer, cluster)
        yield count
