"""Segments: immutable runs of observations of one kind and cluster, each a Parquet blob; for any store.

A segment is sorted by the time that its kind is scanned by, and the facts beside its data tell the range
of these times and of the numbers in its job ids, so that most segments need not be opened. `written`
numbers the observations of a store in the order they came.
"""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType

import polars as pl

from forewarn.errors import UsageError
from forewarn.job.columns import KEYS, SCHEMAS

WRITTEN = "written"
TIME: Mapping[str, str] = MappingProxyType(
    {"job": "submit", "usage": "submit", "node": "seen_at", "partition": "seen_at", "program": "seen_at"}
)
SEGMENT_ROWS = 250_000
# Small enough that one job is found without unpacking a whole segment.
_GROUP_ROWS = 32_768
_STORED: Mapping[str, dict[str, pl.DataType]] = MappingProxyType(
    {kind: {**schema, WRITTEN: pl.Int64()} for kind, schema in SCHEMAS.items()}
)


@dataclass(frozen=True, slots=True)
class Segment:
    """What is known of a segment without opening it."""

    id: int
    kind: str
    cluster: str
    rows: int
    first_time: int
    last_time: int
    first_number: int | None  # of job ids; None where one has no number
    last_number: int | None
    last_written: int

    def may_hold(self, since: int | None, until: int | None, numbers: Sequence[int] | None = None) -> bool:
        """Check whether it can have rows in since ≤ time < until with one of these numbers in the job id."""
        if (since is not None and self.last_time < since) or (until is not None and self.first_time >= until):
            return False
        if numbers is None or self.first_number is None or self.last_number is None:
            return True
        return any(self.first_number <= number <= self.last_number for number in numbers)


class Segments(ABC):
    """The segments of a store, as one reader or writer sees them."""

    @abstractmethod
    def listed(self, kind: str, cluster: str | None = None) -> list[Segment]:
        """Return the segments of a kind, without their data, in the order in which they were put."""

    @abstractmethod
    def loaded(self, segment: Segment) -> bytes:
        """Return the data of a segment as it was put; `StoreError` if it is damaged."""

    @abstractmethod
    def put(self, segment: Segment, data: bytes) -> Segment:
        """Store a new segment; return it with its id."""

    @abstractmethod
    def drop(self, segments: Iterable[Segment]) -> None:
        """Delete segments whose rows are stored elsewhere now."""

    def add(self, kind: str, cluster: str, frame: pl.DataFrame) -> list[Segment]:
        """Store observations of one cluster (with `written`) as segments."""
        parts = frame.sort(order(kind)).iter_slices(SEGMENT_ROWS)
        return [self.put(_described(kind, cluster, part), packed(part)) for part in parts]

    def read(
        self, segment: Segment, columns: Iterable[str] | None = None, where: pl.Expr | None = None
    ) -> pl.DataFrame:
        """Return rows of a segment, in its order."""
        return unpacked(self.loaded(segment), segment.kind, columns, where)


def _described(kind: str, cluster: str, frame: pl.DataFrame) -> Segment:
    time, numbers = frame[TIME[kind]], number_range(frame)
    newest: int = frame[WRITTEN].max()  # type: ignore[assignment]
    return Segment(0, kind, cluster, frame.height, time[0], time[-1], *numbers, newest)


def check_kind(kind: str) -> None:
    """Raise `UsageError` if there is no such kind of record."""
    if kind not in SCHEMAS:
        raise UsageError(f"no such kind of record: {kind!r}; choose from {', '.join(SCHEMAS)}")


def order(kind: str) -> list[str]:
    """Return the columns that observations of a kind are sorted by: each record's together, oldest first."""
    time = TIME[kind]
    return [*dict.fromkeys((time, *KEYS[kind], "seen_at", WRITTEN))]


def id_number(ids: pl.Expr) -> pl.Expr:
    """Extract the number that a job id begins with: 123 of ``123_4`` and of ``123+1``."""
    return ids.str.extract(r"^(\d{1,18})(?:\D|$)").cast(pl.Int64)


def id_numbers(ids: Iterable[str]) -> list[int] | None:
    """Return the numbers of some job ids, or None if one has none (it may be in any segment)."""
    numbers = pl.Series(list(ids), dtype=pl.String).to_frame("id").select(id_number(pl.col("id"))).to_series()
    return None if numbers.null_count() else numbers.to_list()


def packed(frame: pl.DataFrame) -> bytes:
    """Encode observations as Parquet."""
    data = io.BytesIO()
    # Empty columns are left out: reading completes them, as it does those that a record got later.
    filled = [column.name for column in frame if column.null_count() < frame.height]
    frame.select(filled).write_parquet(data, compression="zstd", row_group_size=_GROUP_ROWS)
    return data.getvalue()


def number_range(frame: pl.DataFrame) -> tuple[int | None, int | None]:
    """Return the least and largest number in job ids, or None if one has none or there are no ids."""
    if "job_id" not in frame.columns:
        return None, None
    numbers = frame.select(id_number(pl.col("job_id"))).to_series()
    if numbers.null_count():
        return None, None
    return numbers.min(), numbers.max()  # type: ignore[return-value]


def unpacked(
    data: bytes, kind: str, columns: Iterable[str] | None = None, where: pl.Expr | None = None
) -> pl.DataFrame:
    """Decode observations, in their order, with nulls for columns that they lack."""
    stored = _STORED[kind]
    schema = stored if columns is None else {name: stored[name] for name in columns}
    lazy = pl.scan_parquet(data, schema=schema, missing_columns="insert", extra_columns="ignore")
    return (lazy if where is None else lazy.filter(where)).collect()


def between(kind: str, since: int | None, until: int | None) -> pl.Expr | None:
    """Build the condition since ≤ time < until."""
    time = pl.col(TIME[kind])
    parts = [] if since is None else [time >= since]
    parts += [] if until is None else [time < until]
    return pl.all_horizontal(parts) if parts else None


def in_order(
    found: Iterable[Segment], opened: Callable[[Segment], pl.DataFrame], rows: int
) -> Iterator[pl.DataFrame]:
    """Yield the rows of segments of one kind in frames of about `rows` whose times follow one another.

    What lies before the next segment's first time is complete. So each segment is opened once, and only
    those that overlap are held.
    """
    todo = sorted(found, key=lambda segment: segment.first_time)
    held: list[pl.DataFrame] = []
    for segment, following in pairwise(todo):
        held.append(opened(segment))
        time = TIME[segment.kind]
        cuts = [int(frame[time].search_sorted(following.first_time, side="left")) for frame in held]
        if sum(cuts) >= rows:
            yield pl.concat([frame.head(cut) for frame, cut in zip(held, cuts, strict=True)])
            held = [frame.slice(cut) for frame, cut in zip(held, cuts, strict=True) if cut < frame.height]
    if todo:
        yield pl.concat([*held, opened(todo[-1])])
