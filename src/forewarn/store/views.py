"""Many observations of a record seen as one row: the latest of each field, as of now or of a moment.

Pure functions over frames, for any store. Observations are sorted so that a record's stand together,
oldest first; then the latest value of a field up to some row is found by one running maximum over row
numbers, for all records at once. Most jobs of a log have one observation, and are passed through.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from forewarn.job.columns import JOB_SCHEMA, KEYS
from forewarn.store.base import KNOWN_AT, View

_JOB_FIELDS = list(JOB_SCHEMA)
# What is asked and given, and may change while a job waits: seen as of a moment. From `eligible` on
# fields are times, result and use, which carry their own moment.
AS_OF_MOMENT = frozenset(_JOB_FIELDS[: _JOB_FIELDS.index("eligible")]) - set(KEYS["job"])
# What `known_at` is made of.
KNOWN_FROM = ("seen_at", "reconstructed", "outcome", "end")
Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Runs:
    """Where the observations of each record begin and end (its last row) in a sorted frame."""

    first: Rows
    last: Rows


def latest(frame: pl.DataFrame, key: Sequence[str], order: Sequence[str]) -> pl.DataFrame:
    """Each record's latest value of every field."""
    frame, runs = _runs(frame, key, order)
    return frame if runs is None else _values(frame, frame.columns, runs)


def jobs(
    frame: pl.DataFrame, order: Sequence[str], view: View = "now", known_delay: int | None = None
) -> pl.DataFrame:
    """Each job through a view, with `known_at` if a delay is given.

    `frame` has the key, `seen_at` and those of `KNOWN_FROM` (with a delay) and `start` (for that view)
    beside the fields that are wanted.
    """
    frame, runs = _runs(frame, KEYS["job"], order)
    if runs is None:
        return frame if known_delay is None else frame.with_columns(_known_at_of_one(known_delay))
    now = _values(frame, frame.columns, runs)
    if view != "now":
        moment = now.select(pl.col("submit") if view == "submit" else pl.coalesce("start", "submit"))
        seen = _seen_by(frame["seen_at"].to_numpy(), moment.to_series().to_numpy(), runs)
        now = now.with_columns(_values(frame, [c for c in frame.columns if c in AS_OF_MOMENT], seen))
    if known_delay is None:
        return now
    return (
        now.with_columns(first_live=_first_live(frame, runs))
        .with_columns(_known_at(known_delay))
        .drop("first_live")
    )


def _runs(frame: pl.DataFrame, key: Sequence[str], order: Sequence[str]) -> tuple[pl.DataFrame, Runs | None]:
    """The frame in order, and its runs, or None where every record has one row."""
    if not _in_order(frame, order):
        frame = frame.sort(order)
    repeated = frame.select(pl.all_horizontal(pl.col(k) == pl.col(k).shift() for k in key).fill_null(False))
    begins = ~repeated.to_series().to_numpy()
    if begins.all():
        return frame, None
    first = np.flatnonzero(begins)
    return frame, Runs(first, np.append(first[1:], frame.height) - 1)


def _in_order(frame: pl.DataFrame, order: Sequence[str]) -> bool:
    """Whether the frame is sorted already, as one segment is: far cheaper to see than to sort."""
    disorder = pl.lit(False)
    for name in reversed(order):
        before, here = pl.col(name).shift(), pl.col(name)
        disorder = (before > here) | ((before == here) & disorder)
    return not frame.select(disorder.any()).item()


def _values(frame: pl.DataFrame, names: Sequence[str], runs: Runs) -> pl.DataFrame:
    """For each run the latest value of these fields that is not null."""
    rows = np.arange(frame.height)
    columns = []
    for name in names:
        column = frame[name]
        at = runs.last
        if 0 < column.null_count() < frame.height:
            at = np.maximum.accumulate(np.where(column.is_not_null().to_numpy(), rows, -1))[runs.last]
            # Before the run's first row lies another record; its last row is null where all are.
            at = np.where(at < runs.first, runs.last, at)
        columns.append(column.gather(at))
    return pl.DataFrame(columns)


def _seen_by(seen_at: Rows, moment: Rows, runs: Runs) -> Runs:
    """The runs cut to what had been seen by each record's moment, at least its earliest row."""
    by_then = seen_at <= np.repeat(moment, runs.last - runs.first + 1)
    count = np.add.reduceat(by_then.astype(np.int64), runs.first)
    return Runs(runs.first, runs.first + np.maximum(count, 1) - 1)


def _first_live(frame: pl.DataFrame, runs: Runs) -> pl.Series:
    """When each job's outcome was first seen by someone, rather than read from a record of the past."""
    never = np.iinfo(np.int64).max
    live = frame.select(
        pl.when(~pl.col("reconstructed") & pl.col("outcome").is_not_null()).then("seen_at").otherwise(never)
    )
    first = pl.Series(np.minimum.reduceat(live.to_series().to_numpy(), runs.first))
    return first.to_frame("at").select(pl.when(pl.col("at") < never).then("at")).to_series()


def _known_at(delay: int) -> pl.Expr:
    known = pl.coalesce("first_live", pl.col("end") + delay)
    return pl.when(pl.col("outcome").is_not_null()).then(known).alias(KNOWN_AT)


def _known_at_of_one(delay: int) -> pl.Expr:
    known = pl.when("reconstructed").then(pl.col("end") + delay).otherwise("seen_at")
    return pl.when(pl.col("outcome").is_not_null()).then(known).alias(KNOWN_AT)
