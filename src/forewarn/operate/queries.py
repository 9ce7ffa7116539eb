"""Query jobs of the store: list, count or summarise all that match, or list the newest."""

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
from forewarn.progress import Note, ShowProgress, log_note, no_progress, with_progress
from forewarn.store.base import KNOWN_AT, Store
from forewarn.store.filters import Filter, OneOf

DAY = 86400
Texts = str | Iterable[str]  # one, several, or a list as in "alice,bob"


class JobFilters(TypedDict, total=False):
    """The filters of jobs, named as in sacct; those left out do not restrict."""

    user: Texts
    account: Texts
    partition: Texts
    state: Texts  # outcome or current state: failed, TIMEOUT, OOM, pending, …
    job_id: Texts  # as in sacct: 123, 123_4, 123_[1-3], 123+1; an array's number means all its tasks
    cluster: Texts
    since: Moment | None  # of submission; without a time zone, in that of the clusters
    until: Moment | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A selection of jobs: of these clusters and ids, submitted in [since, until), that pass `where`."""

    clusters: Sequence[str] = ()
    where: Filter | None = None
    job_ids: Sequence[str] | None = None
    since: int | None = None
    until: int | None = None

    def count(self, store: Store, watch: ShowProgress = no_progress) -> int:
        """Count the jobs."""
        if all(part is None for part in (self.where, self.job_ids, self.since, self.until)):
            return sum(store.count(cluster=c) for c in self.clusters) if self.clusters else store.count()
        return sum(frame.height for frame in with_progress(self.all(store, ["job_id"]), "counting", watch))

    def all(self, store: Store, columns: Sequence[str] | None) -> Iterator[pl.DataFrame]:
        """Read all jobs, oldest first."""
        return self._scan(store, columns, self.since, self.until)

    def newest(
        self, store: Store, columns: Sequence[str] | None, limit: int, at: int | None = None
    ) -> Iterator[pl.DataFrame]:
        """Read the newest `limit` jobs, oldest first, without reading the whole history."""
        windows: list[pl.DataFrame] = []
        missing = limit
        for since, until in self._backwards(int(time.time()) if at is None else at):
            window = pl.DataFrame()
            for frame in self._scan(store, columns, since, until):
                window = pl.concat([window, frame]).tail(missing) if window.width else frame.tail(missing)
            windows.append(window)
            missing -= window.height
            if missing == 0:
                break
        yield from (frame for frame in reversed(windows) if frame.height)

    def frame(
        self, store: Store, columns: Sequence[str] | None = None, limit: int | None = None
    ) -> pl.DataFrame:
        """Read the jobs as one frame, oldest first: all, or the newest `limit`; by default all columns."""
        names = [*JOB_SCHEMA, KNOWN_AT] if columns is None else list(columns)
        frames = self.newest(store, names, limit) if limit else self.all(store, names)
        schema = {name: SCHEMAS["job"].get(name, pl.Int64()) for name in names}
        return pl.concat([pl.DataFrame(schema=schema), *(frame.select(names) for frame in frames)])

    def _scan(
        self, store: Store, columns: Sequence[str] | None, since: int | None, until: int | None
    ) -> Iterator[pl.DataFrame]:
        where, cluster = self.where, None
        if len(self.clusters) == 1:
            (cluster,) = self.clusters
        elif self.clusters:
            in_clusters = OneOf("cluster", tuple(self.clusters))
            where = in_clusters if where is None else where & in_clusters
        return store.scan(
            "job",
            cluster=cluster,
            since=since,
            until=until,
            job_ids=self.job_ids,
            columns=columns,
            where=where,
        )

    def _backwards(self, at: int) -> Iterator[tuple[int | None, int | None]]:
        """Yield windows of time from the newest back, each eight times as long as the one before.

        So a few windows are enough, whether the history is dense or its newest job is old.
        """
        upper, length = self.until, DAY
        edge = at if upper is None else min(at, upper)
        while length < 8**6 * DAY:
            edge -= length
            if self.since is not None and edge <= self.since:
                break
            yield edge, upper
            upper, length = edge, length * 8
        yield self.since, upper


def query_of(store: Store, *, note: Note = log_note, **which: Unpack[JobFilters]) -> Query:
    """Build a query from filters as people write them."""
    if unknown := sorted(set(which).difference(JobFilters.__annotations__)):
        raise UsageError(f"no filter {unknown[0]!r}; choose from {', '.join(JobFilters.__annotations__)}")
    clusters = filters.split(_texts(which.get("cluster")))
    zones = timezones(store)
    ids = filters.parse_job_ids(_texts(which.get("job_id")))
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
        since=_unix_time(which.get("since"), clusters, zones, note),
        until=_unix_time(which.get("until"), clusters, zones, note),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSummary:
    """The number of jobs, and their outcomes."""

    jobs: int
    outcomes: Mapping[str, int]  # counts of outcomes of ended jobs, the most frequent first

    @property
    def ended(self) -> int:
        """The number of ended jobs."""
        return sum(self.outcomes.values())


def summarise(store: Store, query: Query, watch: ShowProgress = no_progress) -> JobSummary:
    """Count jobs by outcome."""
    outcomes: Counter[str] = Counter()
    jobs = 0
    for frame in with_progress(query.all(store, ["outcome"]), "counting", watch):
        jobs += frame.height
        outcomes.update(dict(frame["outcome"].drop_nulls().value_counts().iter_rows()))
    return JobSummary(jobs=jobs, outcomes=dict(outcomes.most_common()))


def timezones(store: Store) -> dict[str, str]:
    """Return the time zone of each cluster."""
    return {name: facts.timezone for name, facts in store.clusters().items()}


def _texts(texts: Texts | None) -> tuple[str, ...]:
    return (texts,) if isinstance(texts, str) else tuple(texts or ())


def _unix_time(
    moment: Moment | None, clusters: Sequence[str], zones: Mapping[str, str], note: Note
) -> int | None:
    """Convert a moment to Unix time, in the time zone of the clusters, or in UTC if they have several."""
    if moment is None:
        return None
    of_clusters = {zone for name, zone in zones.items() if not clusters or name in clusters} or {"UTC"}
    if len(of_clusters) > 1:
        note(f"the clusters' time zones differ ({', '.join(sorted(of_clusters))}): {moment} is taken as UTC")
        of_clusters = {"UTC"}
    return unix_seconds(moment, of_clusters.pop())
