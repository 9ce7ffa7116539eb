"""Reading of segments through a view, in frames of bounded size; for any store that keeps segments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from forewarn.errors import UsageError
from forewarn.job.columns import KEYS, SCHEMAS, record_schema
from forewarn.store import segments, views
from forewarn.store.base import KNOWN_AT, View
from forewarn.store.filters import Filter
from forewarn.store.segments import TIME, WRITTEN, Segments, check_kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """The arguments of a scan: see `Store.scan` and `Store.scan_views`."""

    kind: str
    views: Mapping[View, Sequence[str] | None]  # the columns wanted of each, None for all of the record
    cluster: str | None
    since: int | None = None
    until: int | None = None
    job_ids: Sequence[str] | None = None
    where: Filter | None = None  # only through one view: the rows that are left would differ
    rows: int
    known_delay: int

    def __post_init__(self) -> None:
        check_kind(self.kind)
        if self.kind != "job" and set(self.views) != {"now"}:
            (view, *_) = {*self.views} - {"now"}
            raise UsageError(f"only jobs can be seen as of their {view}, not a {self.kind}")
        if not self._by_time and (self.since, self.until, self.job_ids) != (None, None, None):
            raise UsageError(
                f"a scan of {self.kind}s gives their latest state: it takes no since, until or job_ids"
            )
        if unknown := self._used - {*SCHEMAS[self.kind], *self._derived}:
            raise UsageError(f"a {self.kind} has no {', '.join(sorted(unknown))}")

    def frames(self, stored: Segments) -> Iterator[dict[View, pl.DataFrame]]:
        """Yield the frames of the scan, one for each view; `stored` must show one state of the store."""
        chosen = None if self.where is None else self.where.polars()
        for seen in self._seen(self._in_order(stored)):
            if chosen is not None:
                seen = {view: frame.filter(chosen) for view, frame in seen.items()}
            seen = {view: frame.select(self._wanted(view)) for view, frame in seen.items()}
            height = next(iter(seen.values())).height
            size = -(-height // max(1, round(height / self.rows)))
            for begin in range(0, height, size or 1):
                yield {view: frame.slice(begin, size) for view, frame in seen.items()}

    @property
    def _by_time(self) -> bool:
        """Check whether all observations of a record share one time, so that the scan can go by time."""
        return TIME[self.kind] in KEYS[self.kind]

    @property
    def _derived(self) -> list[str]:
        return [KNOWN_AT] if self.kind == "job" else []

    def _wanted(self, view: View) -> list[str]:
        columns = self.views[view]
        return [*record_schema(self.kind), *self._derived] if columns is None else [*columns]

    def _needed(self, view: View) -> set[str]:
        return {*self._wanted(view), *([] if self.where is None else self.where.fields)}

    @property
    def _used(self) -> set[str]:
        return {name for view in self.views for name in self._needed(view)}

    def _in_order(self, stored: Segments) -> Iterator[pl.DataFrame]:
        """Yield observations in frames that follow one another in time."""
        numbers = None if self.job_ids is None else segments.id_numbers(self.job_ids)
        found = [
            segment
            for segment in stored.listed(self.kind, self.cluster)
            if segment.may_hold(self.since, self.until, numbers)
        ]
        needed = {*segments.order(self.kind), *self._used} - {KNOWN_AT}
        if KNOWN_AT in self._used:
            needed |= set(views.KNOWN_FROM)
        if "start" in self.views:
            needed.add("start")
        names = [name for name in (*SCHEMAS[self.kind], WRITTEN) if name in needed]
        where = segments.between(self.kind, self.since, self.until)
        if self.job_ids is not None:
            chosen = pl.col("job_id").is_in(list(self.job_ids))
            where = chosen if where is None else where & chosen
        return segments.in_order(found, lambda segment: stored.read(segment, names, where), self.rows)

    def _seen(self, frames: Iterator[pl.DataFrame]) -> Iterator[dict[View, pl.DataFrame]]:
        order = segments.order(self.kind)
        if self.kind == "job":
            delay = self.known_delay if KNOWN_AT in self._used else None
            columns = {view: self._needed(view) for view in self.views}
            for frame in frames:
                yield views.jobs(frame, order, columns, delay)
        elif self._by_time:
            for frame in frames:
                yield {"now": views.latest(frame, KEYS[self.kind], order)}
        else:
            # The frames go from old to new, so what is latest so far is one more, older observation.
            by_record = [*KEYS[self.kind], "seen_at", WRITTEN]
            so_far: list[pl.DataFrame] = []
            for frame in frames:
                so_far = [views.latest(pl.concat([*so_far, frame]), KEYS[self.kind], by_record)]
            for frame in so_far:
                yield {"now": frame}


def observations(stored: Segments, kind: str, key: Mapping[str, Any]) -> pl.DataFrame:
    """Return every observation whose columns equal `key`, in the order they were seen."""
    check_kind(kind)
    if unknown := key.keys() - SCHEMAS[kind].keys():
        raise UsageError(f"a {kind} has no {', '.join(sorted(unknown))}")
    time, job_id = key.get(TIME[kind]), key.get("job_id")
    numbers = None if job_id is None else segments.id_numbers([job_id])
    until = None if time is None else time + 1
    where = pl.all_horizontal(pl.lit(True), *(pl.col(name).eq_missing(value) for name, value in key.items()))
    found = [
        stored.read(segment, where=where)
        for segment in stored.listed(kind, key.get("cluster"))
        if segment.may_hold(time, until, numbers)
    ]
    nothing = pl.DataFrame(schema={**SCHEMAS[kind], WRITTEN: pl.Int64()})
    return pl.concat([nothing, *found]).sort("seen_at", WRITTEN).drop(WRITTEN)


def changes(stored: Segments, kind: str, cluster: str, since: int) -> tuple[pl.DataFrame, int]:
    """Return the keys of records with observations written after `since`, and the number of the last."""
    newer = [s for s in stored.listed(kind, cluster) if s.last_written > since]
    found = [stored.read(segment, [*KEYS[kind], WRITTEN], pl.col(WRITTEN) > since) for segment in newer]
    nothing = pl.DataFrame(schema={name: SCHEMAS[kind][name] for name in KEYS[kind]})
    keys = pl.concat([nothing, *(frame.select(KEYS[kind]) for frame in found)]).unique(maintain_order=True)
    return keys, max((segment.last_written for segment in newer), default=since)
