"""Deletion of observations from segments; for any store that keeps segments.

A segment is never changed: what is left of it becomes a new one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from forewarn.errors import UsageError
from forewarn.job.columns import KEYS, SCHEMAS
from forewarn.store.segments import TIME, WRITTEN, Segment, Segments, check_kind


def check_keys(kind: str, keys: pl.DataFrame) -> None:
    """Raise `UsageError` unless the columns are `cluster` and others of the kind's key."""
    check_kind(kind)
    if unknown := set(keys.columns).difference(KEYS[kind]):
        raise UsageError(f"{', '.join(sorted(unknown))}: not part of the key of a {kind}")
    if "cluster" not in keys.columns or len(keys.columns) < 2:
        raise UsageError(f"to delete {kind}s, name their cluster and another part of their key")


def without_records(
    stored: Segments, found: Sequence[Segment], keys: pl.DataFrame
) -> Iterator[tuple[Segment, pl.DataFrame, pl.DataFrame]]:
    """Yield the segments that have records with these keys, the rows that stay, and the keys that go."""
    kind = found[0].kind if found else "job"
    columns = [name for name in keys.columns if name != "cluster"]  # a segment holds one cluster only
    time = TIME[kind]
    since, until = (keys[time].min(), keys[time].max()) if time in columns else (None, None)
    for segment in found:
        last = None if until is None else until + 1  # type: ignore[operator]
        if not segment.may_hold(since, last):  # type: ignore[arg-type]
            continue
        here = stored.read(segment, columns)
        if here.join(keys, on=columns, how="semi").is_empty():
            continue
        whole = stored.read(segment)
        gone = whole.join(keys, on=columns, how="semi").select(KEYS[kind])
        yield segment, whole.join(keys, on=columns, how="anti"), gone


def without_old(
    stored: Segments, found: Sequence[Segment], before: int
) -> Iterator[tuple[Segment, pl.DataFrame, int]]:
    """Yield the segments with observations that may go, the rows that stay, and how many go."""
    old = [segment for segment in found if segment.first_time < before]
    kind = old[0].kind if old else "node"
    is_old = pl.col("seen_at") < before
    needed = pl.DataFrame(schema={**SCHEMAS[kind], WRITTEN: pl.Int64()})
    for segment in old:
        needed = _decisive(pl.concat([needed, stored.read(segment, where=is_old)]), kind)
    numbers = needed[WRITTEN].implode()
    for segment in old:
        whole = stored.read(segment)
        rest = whole.filter(~is_old | pl.col(WRITTEN).is_in(numbers))
        if rest.height < whole.height:
            yield segment, rest, whole.height - rest.height


def _decisive(frame: pl.DataFrame, kind: str) -> pl.DataFrame:
    """Return the rows that give the latest value of a field of their record."""
    ordered = frame.sort("seen_at", WRITTEN).with_row_index("_row")
    latest = ordered.group_by(KEYS[kind]).agg(
        pl.col("_row").filter(pl.col(name).is_not_null()).last().alias(name)
        for name in SCHEMAS[kind]
        if name not in KEYS[kind]
    )
    rows = latest.drop(KEYS[kind]).unpivot()["value"].drop_nulls().unique()
    return ordered.filter(pl.col("_row").is_in(rows.implode())).drop("_row")
