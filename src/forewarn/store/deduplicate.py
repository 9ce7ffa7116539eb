"""Comparison of a batch with the store: which rows are new, already stored, or contradict their file.

Rows are matched on their identity (key, source and moment), then compared in every field: no hash is
stored, so nothing hangs on how some version of a library hashes. Pure functions, for any store.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from forewarn.job.columns import KEYS, SCHEMAS
from forewarn.sources.base import SOURCES_OF_RUNS

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class MatchedRows:
    """Rows of a batch beside stored observations of the same identity."""

    row: Ints
    written: Ints  # the stored observation's number
    equal: Mask  # whether they agree in every field

    @classmethod
    def joined(cls, parts: Sequence[MatchedRows]) -> MatchedRows:
        """Concatenate several matches into one."""
        none = np.empty(0, np.int64)
        return cls(
            np.concatenate([none, *(part.row for part in parts)]),
            np.concatenate([none, *(part.written for part in parts)]),
            np.concatenate([none.astype(bool), *(part.equal for part in parts)]),
        )


@dataclass(frozen=True, slots=True)
class BatchComparison:
    """What to do with each row of a batch; rows in neither mask are already stored."""

    new: Mask
    conflict: Mask
    named: Ints  # the stored observations that rows are equal to


class NamedObservations:
    """The stored observations that one file has named so far, as ranges of their numbers.

    A file read again names them in the order it did before, so the runs are few however many its rows.
    """

    def __init__(self) -> None:
        self._first: Ints = np.empty(0, np.int64)
        self._last: Ints = np.empty(0, np.int64)

    def add(self, numbers: Ints) -> None:
        """Add observations that the file named.

        >>> named = NamedObservations()
        >>> named.add(np.array([3, 1, 2, 9]))
        >>> named.contains(np.array([0, 2, 9])).tolist()
        [False, True, True]
        """
        if not numbers.size:
            return
        first = np.concatenate([self._first, numbers])
        last = np.concatenate([self._last, numbers])
        by_first = np.argsort(first, kind="stable")
        first, reach = first[by_first], np.maximum.accumulate(last[by_first])
        begins = np.append(True, first[1:] > reach[:-1] + 1)
        self._first = first[begins]
        self._last = reach[np.append(np.flatnonzero(begins)[1:], first.size) - 1]

    def contains(self, numbers: Ints) -> Mask:
        """Check for each observation whether the file named it."""
        if not self._first.size:
            return np.zeros(numbers.size, bool)
        run = np.searchsorted(self._first, numbers, side="right") - 1
        return (run >= 0) & (numbers <= self._last[run])


# The moment of every final record of a job: none that a clock shows.
_ENDED = np.iinfo(np.int64).min


def identity(kind: str) -> dict[str, pl.Expr]:
    """Return, by name, the columns in which rows of one observation agree.

    The moment is when it was seen. A final record that nobody saw (a job's with an outcome, reconstructed)
    has one moment whatever it says: its `seen_at` follows from its own times, and a job ends once, unless
    its source tells of every run.
    """
    moment = pl.col("seen_at")
    if kind == "job":
        final = pl.col("reconstructed") & pl.col("outcome").is_not_null()
        # The end of a run is another moment than its start, be it in the same second.
        ended = pl.when(pl.col("source").is_in(sorted(SOURCES_OF_RUNS))).then(-moment).otherwise(_ENDED)
        moment = pl.when(final).then(ended).otherwise(moment)
    return {name: pl.col(name) for name in (*KEYS[kind], "source")} | {"_moment": moment}


def equal_rows(left: pl.DataFrame, right: pl.DataFrame, kind: str) -> Mask:
    """Compare two frames of the same height row by row in every field; null equals null."""
    equal = np.ones(left.height, bool)
    for name in SCHEMAS[kind]:
        equal &= left[name].eq_missing(right[name]).to_numpy()
    return equal


def compare_batch(
    batch: pl.DataFrame, kind: str, pairs: MatchedRows, named: NamedObservations | None
) -> BatchComparison:
    """Decide what to do with each row of a batch.

    With `named` the batch is part of a file, in which rows must not contradict each other: the row
    that the file had first stands for its identity. Without, they are live observations, and all are stored
    that say something else.
    """
    rows = np.arange(batch.height)
    first = _first_of_identity(batch, kind)
    later = first != rows
    stored = _mask(rows.size, pairs.row[pairs.equal])
    if named is None:
        same = stored | _repeats(batch, kind, first, later)
        conflict = np.zeros(rows.size, bool)
    else:
        ours = named.contains(pairs.written)
        named_before = _mask(rows.size, pairs.row[ours])
        agreed = _mask(rows.size, pairs.row[ours & pairs.equal])
        echo = np.zeros(rows.size, bool)
        echo[later] = equal_rows(batch[rows[later]], batch[first[later]], kind)
        same = np.where(named_before, agreed, np.where(later, echo, stored))
        conflict = (named_before | later) & ~same
    equal = pairs.written[pairs.equal & same[pairs.row]]
    return BatchComparison(new=~same & ~conflict, conflict=conflict, named=equal)


def _first_of_identity(batch: pl.DataFrame, kind: str) -> Ints:
    """Return for each row the first row of the batch with its identity, mostly itself."""
    same = identity(kind)
    numbered = batch.select(pl.int_range(pl.len(), dtype=pl.Int64).alias("_n"), **same)
    return numbered.select(pl.col("_n").min().over(list(same))).to_series().to_numpy()


def _repeats(batch: pl.DataFrame, kind: str, first: Ints, later: Mask) -> Mask:
    """Find rows that equal an earlier row of the batch in every field."""
    repeats = np.zeros(batch.height, bool)
    several = np.flatnonzero(np.isin(first, first[later]))  # mostly none: nothing wide is compared then
    kept = (
        batch[several].with_row_index("_n").unique(subset=list(SCHEMAS[kind]), keep="first")["_n"].to_numpy()
    )
    repeats[np.delete(several, kept)] = True
    return repeats


def _mask(size: int, rows: Ints) -> Mask:
    mask = np.zeros(size, bool)
    mask[rows] = True
    return mask
