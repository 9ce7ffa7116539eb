"""Split of a table into blocks in order of time: train, search, calibrate, test.

A job belongs to a block by its submit time at every phase, so that phases are compared on the same jobs. A
model fitted at a cut sees only outcomes known at that cut. Just before the cut these are biased towards short
jobs, since the long ones have not ended. So a gap is left before each cut, long enough that the outcomes of
nearly all jobs are known. Giving the known jobs more weight instead was tried: weights cannot stand for jobs
longer than any that has ended, and removed only a quarter of the bias (simulator, run time of jobs before 40
cuts).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forewarn.errors import NotEnoughError, UsageError
from forewarn.learn.data.table import JobTable

SHARES = (0.6, 0.1, 0.1, 0.2)  # train, search, calibrate, test
SETTLED_SHARE = 0.99  # of the jobs have a known outcome after the gap
# Two limits of the gap, so that enough of a short history remains: the largest share of the whole history
# that it may take, and the smallest share of a block that must remain.
LONGEST_GAP, SMALLEST_REST = 0.1, 0.5
FEWEST, FEWEST_OF_A_CLASS = 20, 5  # jobs that each block needs


@dataclass(frozen=True, slots=True)
class Split:
    """The rows of each block, and the times of the three cuts between them."""

    train: NDArray[np.int64]
    search: NDArray[np.int64]
    calibrate: NDArray[np.int64]
    test: NDArray[np.int64]
    cuts: tuple[int, int, int]


def split(table: JobTable, shares: tuple[float, float, float, float] = SHARES) -> Split:
    """Split a table into blocks by shares of its jobs in order of submit."""
    if len(shares) != 4 or min(shares) <= 0 or abs(sum(shares) - 1) > 1e-9:
        raise UsageError(f"shares of the blocks must be four positive numbers that add up to 1, not {shares}")
    submit = np.sort(table.submit if table.all_submits is None else table.all_submits)
    if not len(table.submit):
        raise NotEnoughError(f"{table.cluster}: no jobs to learn from at phase {table.phase}")
    if not table.labelled.any():
        raise NotEnoughError(
            f"{table.cluster}: none of the {len(table.submit):,} jobs is in the population "
            f"`{table.population}` and has a known end and outcome. Ingest more history, or choose another "
            "--population"
        )
    places = (np.cumsum(shares[:3]) * len(submit)).round().astype(int)
    first, second, third = (int(submit[min(place, len(submit) - 1)]) for place in places)
    blocks = [
        np.flatnonzero(table.labelled & (table.submit >= begin) & (table.submit < end))
        for begin, end in zip((-(2**62), first, second, third), (first, second, third, 2**62), strict=True)
    ]
    train, search, calibrate, test = blocks
    for name, rows in zip(("train", "search", "calibrate", "test"), blocks, strict=True):
        check(table, name, rows)
    return Split(train, search, calibrate, test, (first, second, third))


def check(table: JobTable, name: str, rows: NDArray[np.int64]) -> None:
    """Raise `NotEnoughError` if a block has too few jobs, or too few of one class."""
    failed = int(table.fails[rows].sum())
    if len(rows) < FEWEST:
        raise NotEnoughError(
            f"{table.cluster}: too few jobs to learn from: {len(rows)} with a known outcome in the block "
            f"`{name}`, which needs {FEWEST}. Ingest more history, or choose another --population"
        )
    if failed in (0, len(rows)):
        raise NotEnoughError(
            f"{table.cluster}: all {len(rows):,} jobs of the block `{name}` "
            f"{'failed' if failed else 'ended well'} in the population `{table.population}`: a model needs "
            "both outcomes. Ingest more history, or choose another --population"
        )
    if min(failed, len(rows) - failed) < FEWEST_OF_A_CLASS:
        raise NotEnoughError(
            f"{table.cluster}: {failed} of {len(rows):,} jobs of the block `{name}` failed in the population "
            f"`{table.population}`, and at least {FEWEST_OF_A_CLASS} of each outcome are needed. Ingest more "
            "history, or choose another --population"
        )


def check_settled(table: JobTable, name: str, rows: NDArray[np.int64], usable: NDArray[np.int64]) -> None:
    """Raise `NotEnoughError` if a model may learn from too few jobs of a block, and say what helps."""
    if len(usable) < FEWEST <= len(rows):
        hours = np.ptp(table.submit) / 3600
        raise NotEnoughError(
            f"{table.cluster}: the history is too short: it spans {hours:,.1f} hours, and of the "
            f"{len(rows):,} jobs of the block `{name}` only {len(usable):,} were known to have ended when "
            f"the next block begins ({FEWEST} are needed). Train again when it is longer; `forewarn train "
            "slurm:` learns from accounting, which tells when each job ended"
        )
    check(table, name, usable)


def settled_rows(table: JobTable, rows: NDArray[np.int64], cut: int) -> NDArray[np.int64]:
    """Select the rows that a model fitted at the cut may learn from: known by then, and before the gap."""
    known = known_rows(table, rows, cut)
    return known[table.submit[known] < cut - gap_before_cut(table, known)]


def used_rows(table: JobTable, parts: Split) -> dict[str, NDArray[np.int64]]:
    """Return the rows that each block uses: those settled at its cut; of the test block all."""
    blocks = {"train": parts.train, "search": parts.search, "calibrate": parts.calibrate}
    used = {
        name: settled_rows(table, rows, cut)
        for (name, rows), cut in zip(blocks.items(), parts.cuts, strict=True)
    }
    return {**used, "test": parts.test}


def known_rows(table: JobTable, rows: NDArray[np.int64], cut: int) -> NDArray[np.int64]:
    """Select the rows whose outcome was known at the cut."""
    return rows[(table.known_at[rows] >= 0) & (table.known_at[rows] < cut)]


def gap_before_cut(table: JobTable, known: NDArray[np.int64]) -> int:
    """Compute the seconds to leave out before a cut: the time until nearly all of these jobs were known."""
    if not len(known):
        return 0
    submit = table.submit[known]
    delay = np.quantile(table.known_at[known] - submit, SETTLED_SHARE)
    spans = LONGEST_GAP * np.ptp(table.submit), (1 - SMALLEST_REST) * np.ptp(submit)
    return int(min(delay, *spans))
