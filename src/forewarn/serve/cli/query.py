"""What `forewarn jobs` asks of the store: all of it in order, or the newest without reading the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from forewarn.serve.cli.progress import watched
from forewarn.store.base import Store
from forewarn.store.filters import Filter, OneOf

DAY = 86400


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Which jobs: of these clusters and ids, submitted in [since, until), for which `where` is true."""

    clusters: Sequence[str] = ()
    where: Filter | None = None
    job_ids: Sequence[str] | None = None
    since: int | None = None
    until: int | None = None

    def count(self, store: Store) -> int:
        """How many."""
        if all(part is None for part in (self.where, self.job_ids, self.since, self.until)):
            return sum(store.count(cluster=c) for c in self.clusters) if self.clusters else store.count()
        return sum(frame.height for frame in watched(self.all(store, ["job_id"]), "counting"))

    def all(self, store: Store, columns: Sequence[str] | None) -> Iterator[pl.DataFrame]:
        """Every job, oldest first."""
        return self._scan(store, columns, self.since, self.until)

    def newest(
        self, store: Store, columns: Sequence[str] | None, limit: int, now: int
    ) -> Iterator[pl.DataFrame]:
        """The newest jobs, `limit` of them, oldest first."""
        found: list[pl.DataFrame] = []
        wanted = limit
        for since, until in self._backwards(now):
            window = pl.DataFrame()
            for frame in self._scan(store, columns, since, until):
                window = pl.concat([window, frame]).tail(wanted) if window.width else frame.tail(wanted)
            found.append(window)
            wanted -= window.height
            if wanted == 0:
                break
        yield from (frame for frame in reversed(found) if frame.height)

    def _scan(
        self, store: Store, columns: Sequence[str] | None, since: int | None, until: int | None
    ) -> Iterator[pl.DataFrame]:
        where, one = self.where, None
        if len(self.clusters) == 1:
            (one,) = self.clusters
        elif self.clusters:
            mine = OneOf("cluster", tuple(self.clusters))
            where = mine if where is None else where & mine
        return store.scan(
            "job", cluster=one, since=since, until=until, job_ids=self.job_ids, columns=columns, where=where
        )

    def _backwards(self, now: int) -> Iterator[tuple[int | None, int | None]]:
        """Windows of time from the newest back, each eight times as long: few where history is dense,
        and few where it is old."""
        upper, length = self.until, DAY
        edge = now if upper is None else min(now, upper)
        while length < 8**6 * DAY:
            edge -= length
            if self.since is not None and edge <= self.since:
                break
            yield edge, upper
            upper, length = edge, length * 8
        yield self.since, upper
