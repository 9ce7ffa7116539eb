"""Views: the observations of a record as one row, with the latest value of each field at a moment.

Pure functions over frames, for any store. Observations are sorted so that a record's stand together,
oldest first; then the latest value of a field up to some row is found by one running maximum over row
numbers, for all records at once. Most jobs of a log have one observation, and are passed through.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from forewarn.job.columns import JOB_SCHEMA, KEYS
from forewarn.job.step_outcomes import EXACT_STATES
from forewarn.store.base import KNOWN_AT, View

_JOB_FIELDS = list(JOB_SCHEMA)
# What is asked and given, and may change while a job waits: seen as of a moment. From `eligible` on
# fields are times, result and use, which carry their own moment.
AS_OF_MOMENT = frozenset(_JOB_FIELDS[: _JOB_FIELDS.index("eligible")]) - set(KEYS["job"])
# What a job is given at its start: whoever looks later finds it, so what was first seen of it was so then.
GIVEN = frozenset({"nodes", "nodes_given", "cpus_given", "memory_given", "gpus_given", "tres_given"})
# The fields that `known_at` is computed from.
KNOWN_FROM = ("seen_at", "reconstructed", "outcome", "end")
# Outcomes that steps tell of a job which Slurm calls failed. Only accounting has steps, and who saw the job
# end live looked later: the more exact value is kept.
_EXACT = [str(outcome) for outcome in EXACT_STATES.values()]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ObservationRuns:
    """The observations of each record, oldest first: where its run begins, and its last row.

    `place` leads from the sorted order to the frame's own, which is wide and need not be sorted for it.
    """

    place: Ints
    first: Ints
    last: Ints


def latest(frame: pl.DataFrame, key: Sequence[str], order: Sequence[str]) -> pl.DataFrame:
    """Return each record's latest value of every field."""
    frame, runs = _runs(frame, key, order)
    return frame if runs is None else _values(frame, frame.columns, runs)


def jobs(
    frame: pl.DataFrame,
    order: Sequence[str],
    columns: Mapping[View, Collection[str]],
    known_delay: int | None = None,
) -> dict[View, pl.DataFrame]:
    """Return each job through some views, row by row the same jobs, with the columns of each view.

    `frame` has the columns of `order`, those of `KNOWN_FROM` (with a delay, for `known_at`) and `start` (for
    that view) beside the requested fields.
    """
    frame, runs = _runs(frame, KEYS["job"], order)
    if runs is None:
        if known_delay is not None:
            frame = frame.with_columns(_known_at_of_one(known_delay))
        return {view: frame.select(names) for view, names in columns.items()}
    wanted_now = columns.get("now", ())
    now = _values(frame, [c for c in frame.columns if c not in AS_OF_MOMENT or c in wanted_now], runs)
    if known_delay is not None:
        now = now.with_columns(_known_at(_first_live(frame, runs), known_delay))
    return {view: _as_of(view, frame, now, runs, names).select(names) for view, names in columns.items()}


def _as_of(
    view: View, frame: pl.DataFrame, now: pl.DataFrame, runs: ObservationRuns, columns: Collection[str]
) -> pl.DataFrame:
    """Replace columns of the current view by their values as of the view's moment."""
    if view == "now":
        return now
    moment = now.select(pl.col("submit") if view == "submit" else pl.coalesce("start", "submit"))
    seen = _seen_by(frame, moment.to_series().to_numpy(), runs)
    then = now.with_columns(_values(frame, [c for c in columns if c in AS_OF_MOMENT], seen))
    if view == "start":
        given = _first_values(frame, [c for c in columns if c in GIVEN], runs)
        started = now.select(pl.col("start").is_not_null().alias("_started")).to_series()
        then = then.with_columns(pl.when(started).then(column).otherwise(name) for name, column in given)
    return then


def _runs(
    frame: pl.DataFrame, key: Sequence[str], order: Sequence[str]
) -> tuple[pl.DataFrame, ObservationRuns | None]:
    """Find the runs of the frame, or return the frame in order if every record has one row."""
    sorted_key = frame.select(pl.int_range(pl.len(), dtype=pl.Int64).alias("_place"), *order)
    if not (in_order := _in_order(sorted_key, order)):
        sorted_key = sorted_key.sort(order)
    same = pl.all_horizontal(pl.col(name) == pl.col(name).shift() for name in key)
    begins = ~sorted_key.select(same.fill_null(False)).to_series().to_numpy()
    place = sorted_key["_place"].to_numpy()
    if begins.all():
        return frame if in_order else frame[place], None
    first = np.flatnonzero(begins)
    return frame, ObservationRuns(place, first, np.append(first[1:], frame.height) - 1)


def _in_order(frame: pl.DataFrame, order: Sequence[str]) -> bool:
    """Check whether the frame is sorted already, as one segment is: far cheaper than to sort."""
    disorder = pl.lit(False)
    for name in reversed(order):
        before, here = pl.col(name).shift(), pl.col(name)
        disorder = (before > here) | ((before == here) & disorder)
    return not frame.select(disorder.any()).item()


def _values(frame: pl.DataFrame, names: Sequence[str], runs: ObservationRuns) -> pl.DataFrame:
    """Return for each run the latest value of these fields that is not null."""
    columns = []
    for name in names:
        column = frame[name]
        at = runs.last
        if 0 < column.null_count() < frame.height:
            at = _latest_of(column.is_not_null(), runs, otherwise=at)
        if name == "outcome":
            exact = _latest_of(column.is_in(_EXACT).fill_null(False), runs, otherwise=at)
            failed = (column.gather(runs.place[at]) == "failed").fill_null(False).to_numpy()
            at = np.where(failed, exact, at)
        columns.append(column.gather(runs.place[at]))
    return pl.DataFrame(columns)


def _latest_of(chosen: pl.Series, runs: ObservationRuns, *, otherwise: Ints) -> Ints:
    """Return for each run its last chosen row, if there is one."""
    rows = np.arange(chosen.len())
    at = np.maximum.accumulate(np.where(chosen.to_numpy()[runs.place], rows, -1))[runs.last]
    return np.where(at < runs.first, otherwise, at)  # before the run's first row lies another record


def _first_values(
    frame: pl.DataFrame, names: Sequence[str], runs: ObservationRuns
) -> list[tuple[str, pl.Series]]:
    """Return for each run the earliest value of these fields that is not null."""
    rows, after = np.arange(frame.height), frame.height
    columns = []
    for name in names:
        filled = frame[name].is_not_null().to_numpy()[runs.place]
        at = np.minimum.accumulate(np.where(filled, rows, after)[::-1])[::-1][runs.first]
        at = np.where(at > runs.last, runs.first, at)
        columns.append((name, frame[name].gather(runs.place[at])))
    return columns


def _seen_by(frame: pl.DataFrame, moment: Ints, runs: ObservationRuns) -> ObservationRuns:
    """Cut the runs to what had been seen by each record's moment, but keep at least its earliest row."""
    seen_at = frame["seen_at"].to_numpy()[runs.place]
    by_then = seen_at <= np.repeat(moment, runs.last - runs.first + 1)
    count = np.add.reduceat(by_then.astype(np.int64), runs.first)
    return ObservationRuns(runs.place, runs.first, runs.first + np.maximum(count, 1) - 1)


def _first_live(frame: pl.DataFrame, runs: ObservationRuns) -> pl.Series:
    """Return when each job's outcome was first seen live, rather than read from a record of the past."""
    never = np.iinfo(np.int64).max
    live = ~pl.col("reconstructed") & pl.col("outcome").is_not_null()
    seen_at = frame.select(pl.when(live).then("seen_at").otherwise(never)).to_series().to_numpy()
    first = pl.Series(np.minimum.reduceat(seen_at[runs.place], runs.first))
    return first.set(first == never, None)


def _known_at(first_live: pl.Series, delay: int) -> pl.Expr:
    known = pl.coalesce(first_live, pl.col("end") + delay)
    return pl.when(pl.col("outcome").is_not_null()).then(known).alias(KNOWN_AT)


def _known_at_of_one(delay: int) -> pl.Expr:
    known = pl.when("reconstructed").then(pl.col("end") + delay).otherwise("seen_at")
    return pl.when(pl.col("outcome").is_not_null()).then(known).alias(KNOWN_AT)
