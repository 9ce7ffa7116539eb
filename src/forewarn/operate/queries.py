"""Jobs of the store: all of them in order, or the newest without reading the rest; counted, summed up."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict, Unpack

import polars as pl

from forewarn.errors import UsageError
from forewarn.job.columns import JOB_SCHEMA, SCHEMAS
from forewarn.job.moments import Moment, unix_seconds
from forewarn.operate import job_filters as filters
from forewarn.progress import Note, Watch, logged, unwatched, watched
from forewarn.store.base import KNOWN_AT, Store
from forewarn.store.filters import Filter, OneOf

DAY = 86400
Texts = str | Iterable[str]  # one, several, or a list as in "alice,bob"


class JobFilters(TypedDict, total=False):
    """Which jobs are meant, in sacct's words; what is left out restricts nothing."""

    user: Texts
    account: Texts
    partition: Texts
    state: Texts  # how they ended or stand now: failed, TIMEOUT, OOM, pending, …
    job_id: Texts  # as people write them: 123, 123_4, 123_[1-3], 123+1; an array's number is all its tasks
    cluster: Texts
    since: Moment | None  # of the submit; without a zone, in the clock of the clusters asked for
    until: Moment | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Which jobs: of these clusters and ids, submitted in [since, until), for which `where` is true."""

    clusters: Sequence[str] = ()
    where: Filter | None = None
    job_ids: Sequence[str] | None = None
    since: int | None = None
    until: int | None = None

    def count(self, store: Store, watch: Watch = unwatched) -> int:
        """Count them."""
        if all(part is None for part in (self.where, self.job_ids, self.since, self.until)):
            return sum(store.count(cluster=c) for c in self.clusters) if self.clusters else store.count()
        return sum(frame.height for frame in watched(self.all(store, ["job_id"]), "counting", watch))

    def all(self, store: Store, columns: Sequence[str] | None) -> Iterator[pl.DataFrame]:
        """Read every one, oldest first."""
        return self._scan(store, columns, self.since, self.until)

    def newest(
        self, store: Store, columns: Sequence[str] | None, limit: int, now: int | None = None
    ) -> Iterator[pl.DataFrame]:
        """Read the newest, `limit` of them, oldest first."""
        found: list[pl.DataFrame] = []
        wanted = limit
        for since, until in self._backwards(int(time.time()) if now is None else now):
            window = pl.DataFrame()
            for frame in self._scan(store, columns, since, until):
                window = pl.concat([window, frame]).tail(wanted) if window.width else frame.tail(wanted)
            found.append(window)
            wanted -= window.height
            if wanted == 0:
                break
        yield from (frame for frame in reversed(found) if frame.height)

    def frame(
        self, store: Store, columns: Sequence[str] | None = None, limit: int | None = None
    ) -> pl.DataFrame:
        """Read them as one frame, oldest first: all, or the newest `limit`; `columns` None: all of a job."""
        wanted = [*JOB_SCHEMA, KNOWN_AT] if columns is None else list(columns)
        frames = self.newest(store, wanted, limit) if limit else self.all(store, wanted)
        schema = {name: SCHEMAS["job"].get(name, pl.Int64()) for name in wanted}
        return pl.concat([pl.DataFrame(schema=schema), *(frame.select(wanted) for frame in frames)])

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


def query_of(store: Store, *, note: Note = logged, **which: Unpack[JobFilters]) -> Query:
    """Make a query of what is asked for."""
    if unknown := sorted(set(which).difference(JobFilters.__annotations__)):
        raise UsageError(f"jobs cannot be chosen by {unknown[0]!r}: {', '.join(JobFilters.__annotations__)}")
    clusters = filters.split(_texts(which.get("cluster")))
    zones = timezones(store)
    ids = filters.ids_of(_texts(which.get("job_id")))
    tests = [
        filters.one_of("user", _texts(which.get("user"))),
        filters.one_of("account", _texts(which.get("account"))),
        filters.in_partition(_texts(which.get("partition"))),
        filters.in_state(_texts(which.get("state"))),
        ids.test if ids else None,
    ]
    return Query(
        clusters=clusters,
        where=filters.all_of(tests),
        job_ids=sorted(ids.exact) if ids and not ids.whole else None,
        since=_moment(which.get("since"), clusters, zones, note),
        until=_moment(which.get("until"), clusters, zones, note),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSummary:
    """How many jobs there are, and how they ended."""

    jobs: int
    outcomes: Mapping[str, int]  # of those that have ended, the most frequent first

    @property
    def ended(self) -> int:
        """How many have ended."""
        return sum(self.outcomes.values())


def summarise(store: Store, query: Query, watch: Watch = unwatched) -> JobSummary:
    """Count jobs by how they ended."""
    outcomes: Counter[str] = Counter()
    jobs = 0
    for frame in watched(query.all(store, ["outcome"]), "counting", watch):
        jobs += frame.height
        outcomes.update(dict(frame["outcome"].drop_nulls().value_counts().iter_rows()))
    return JobSummary(jobs=jobs, outcomes=dict(outcomes.most_common()))


def timezones(store: Store) -> dict[str, str]:
    """Give the zone of each cluster's clock."""
    return {name: facts.timezone for name, facts in store.clusters().items()}


def _texts(given: Texts | None) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given or ())


def _moment(
    given: Moment | None, clusters: Sequence[str], zones: Mapping[str, str], note: Note
) -> int | None:
    """A moment in the clock of the clusters asked for, if they share one."""
    if given is None:
        return None
    meant = {zone for name, zone in zones.items() if not clusters or name in clusters} or {"UTC"}
    if len(meant) > 1:
        note(f"these clusters' clocks differ ({', '.join(sorted(meant))}): {given} is read as UTC")
        meant = {"UTC"}
    return unix_seconds(given, meant.pop())
