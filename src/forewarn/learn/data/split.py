"""Blocks in order of time: train, search, calibrate, test.

A job belongs to a block by its submit, at every phase, so that phases are compared on the same jobs. A
model made at a cut sees only outcomes known at that cut. Just before it these are the short jobs: the
long ones have not ended. So a gap is left before each cut, as long as nearly all jobs take to be known.
Weighing the known ones up instead was tried: it cannot stand for jobs longer than any that has ended,
and took away a quarter of the bias only (simulator, run time of jobs before 40 cuts).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forewarn.errors import NotEnoughError, UsageError
from forewarn.learn.data.table import JobTable

SHARES = (0.6, 0.1, 0.1, 0.2)  # train, search, calibrate, test
SETTLED = 0.99  # of jobs are known after the gap
# So that a young history keeps something to learn from: the gap's share of all the time there is, at most,
# and the share of a block's own time that stays.
LONGEST_GAP, LEAST_KEPT = 0.1, 0.5
FEWEST, FEWEST_OF_A_CLASS = 20, 5  # jobs that each block needs


@dataclass(frozen=True, slots=True)
class Split:
    """Rows of each block, and the moments of the three cuts between them."""

    train: NDArray[np.int64]
    search: NDArray[np.int64]
    calibrate: NDArray[np.int64]
    test: NDArray[np.int64]
    cuts: tuple[int, int, int]


def split(table: JobTable, shares: tuple[float, float, float, float] = SHARES) -> Split:
    """The blocks of a table, by shares of its jobs in order of submit."""
    if len(shares) != 4 or min(shares) <= 0 or abs(sum(shares) - 1) > 1e-9:
        raise UsageError(f"shares of the blocks must be four positive numbers that add up to 1, not {shares}")
    submit = np.sort(table.submit if table.all_submits is None else table.all_submits)
    if not len(table.submit):
        raise NotEnoughError(f"{table.cluster}: no jobs to learn from at phase {table.phase}")
    if not table.labelled.any():
        raise NotEnoughError(
            f"{table.cluster}: none of its {len(table.submit):,} jobs takes part under the policy "
            f"`{table.population}` and has an end and an outcome that are known. Ingest more history, or "
            "choose another --policy"
        )
    places = (np.cumsum(shares[:3]) * len(submit)).round().astype(int)
    first, second, third = (int(submit[min(place, len(submit) - 1)]) for place in places)
    part = table.labelled
    blocks = [
        np.flatnonzero(part & (table.submit >= begin) & (table.submit < end))
        for begin, end in zip((-(2**62), first, second, third), (first, second, third, 2**62), strict=True)
    ]
    train, search, calibrate, test = blocks
    for name, rows in zip(("train", "search", "calibrate", "test"), blocks, strict=True):
        check(table, name, rows)
    return Split(train, search, calibrate, test, (first, second, third))


def check(table: JobTable, name: str, rows: NDArray[np.int64]) -> None:
    """Raise `NotEnoughError` where a block has too few jobs, or jobs of one class only."""
    failed = int(table.fails[rows].sum())
    if len(rows) < FEWEST:
        raise NotEnoughError(
            f"{table.cluster}: too few jobs to learn from: {len(rows)} with a known outcome in the block "
            f"`{name}`, which needs {FEWEST}. Ingest more history, or "
            "choose another --policy"
        )
    if failed in (0, len(rows)):
        raise NotEnoughError(
            f"{table.cluster}: all {len(rows):,} jobs of the block `{name}` "
            f"{'failed' if failed else 'ended well'} under the policy `{table.population}`: there is nothing "
            "to tell apart. Ingest more history, or choose another --policy"
        )
    if min(failed, len(rows) - failed) < FEWEST_OF_A_CLASS:
        raise NotEnoughError(
            f"{table.cluster}: {failed} of {len(rows):,} jobs of the block `{name}` failed under the policy "
            f"`{table.population}`, and at least {FEWEST_OF_A_CLASS} of each outcome are needed. Ingest more "
            "history, or choose another --policy"
        )


def check_settled(table: JobTable, name: str, rows: NDArray[np.int64], known: NDArray[np.int64]) -> None:
    """Raise `NotEnoughError` where too few jobs of a block may be learnt from, with what helps."""
    if len(known) < FEWEST <= len(rows):
        hours = np.ptp(table.submit) / 3600
        raise NotEnoughError(
            f"{table.cluster}: the history is too young: it spans {hours:,.1f} hours, and of the "
            f"{len(rows):,} jobs of the block `{name}` only {len(known):,} were known to have ended when the "
            f"next block begins ({FEWEST} are needed). Train again when it is older; `forewarn train slurm:` "
            "learns from accounting, where ends count as known from when they were"
        )
    check(table, name, known)


def settled(table: JobTable, rows: NDArray[np.int64], cut: int) -> NDArray[np.int64]:
    """Those of the rows that a model made at the cut may learn from: known by then, and before the gap."""
    known = known_at(table, rows, cut)
    return known[table.submit[known] < cut - gap(table, known)]


def used_rows(table: JobTable, parts: Split) -> dict[str, NDArray[np.int64]]:
    """What each block decides by: the jobs that were settled at its cut, of the test block all."""
    blocks = {"train": parts.train, "search": parts.search, "calibrate": parts.calibrate}
    used = {
        name: settled(table, rows, cut) for (name, rows), cut in zip(blocks.items(), parts.cuts, strict=True)
    }
    return {**used, "test": parts.test}


def known_at(table: JobTable, rows: NDArray[np.int64], cut: int) -> NDArray[np.int64]:
    """Those of the rows whose outcome was known at the cut."""
    return rows[(table.known[rows] >= 0) & (table.known[rows] < cut)]


def gap(table: JobTable, known: NDArray[np.int64]) -> int:
    """Seconds before a cut that are left out: after so long, nearly every one of these jobs was known."""
    if not len(known):
        return 0
    submit = table.submit[known]
    delay = np.quantile(table.known[known] - submit, SETTLED)
    spans = LONGEST_GAP * np.ptp(table.submit), (1 - LEAST_KEPT) * np.ptp(submit)
    return int(min(delay, *spans))
