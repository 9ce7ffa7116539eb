"""A history in windows of time, each as long as its answer is of a good size.

A window's answer has every job that overlaps it. So that none is given twice and nothing need be
remembered, a job is taken from the window in which it ended; one that has not ended, from the last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import polars as pl

from forewarn.errors import BadRow, LargeAnswerError, LostAnswerError, SlowAnswerError
from forewarn.job.columns import KEYS
from forewarn.sources.base import Batch
from forewarn.sources.slurm.clock import Clock
from forewarn.sources.slurm.scheduler import HistoryPart

# What a smaller window may mend. A server that died of an answer must not be asked the same again.
TOO_MUCH = (SlowAnswerError, LostAnswerError, LargeAnswerError)
# Those that end a run: a job that was put back into the queue has one of its own for each.
ENDED_STATES = (
    *("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE"),
    *("OUT_OF_MEMORY", "REQUEUED"),
)
_MOST_BAD = 10_000  # bad rows remembered, so that each is told once


@dataclass(frozen=True, slots=True)
class WindowAnswer:
    """What the scheduler says of one window."""

    overlapping: list[Batch]
    # Cancelled in it before they were ever eligible: Slurm knows a job's place in time by its eligible
    # time, so it does not count those as overlapping anything.
    cancelled: list[Batch]
    notes: tuple[str, ...] = ()


Ask = Callable[[int, int], WindowAnswer]


@dataclass(slots=True, kw_only=True)
class WindowLength:
    """How long the next window is: never so long that it would be too much at the busiest rate seen.

    A busy time may follow a quiet one, in which windows have grown.
    """

    seconds: int = 3600
    shortest: int = 60
    longest: int = 12 * 3600
    rows: int = 4000  # a good answer: about 20 MB of JSON, and 350 MB of slurmrestd's memory
    slow: float = 10.0  # seconds
    busiest: float = 0.0  # jobs a second, so far

    def learn(self, ended: int, carried: int, took: float) -> None:
        """Fit the next window to what the last one gave: jobs that ended in it, and such as only overlap it.

        Those that overlap come however short a window is: it is fitted to the room that they leave.

        >>> span = WindowLength(seconds=1000)
        >>> span.learn(8000, 0, 1.0); span.seconds
        500
        >>> span.learn(0, 9000, 1.0); span.seconds
        1000
        """
        self.busiest = max(self.busiest, ended / self.seconds)
        room = max(self.rows - carried, self.rows // 4)
        factor = min(2.0, room / ended) if ended else 2.0
        if took > self.slow:
            factor = min(factor, self.slow / took)
        self._scale(max(0.25, factor))

    def shrink(self) -> bool:
        """Make it a quarter; False where it is as short as it gets."""
        before = self.seconds
        self._scale(0.25)
        return self.seconds < before

    def _scale(self, factor: float) -> None:
        longest = min(self.longest, 4 * self.rows / self.busiest) if self.busiest else self.longest
        self.seconds = max(self.shortest, int(min(longest, self.seconds * factor)))


def collect_windows(ask: Ask, since: int, until: int, span: WindowLength, clock: Clock) -> Iterator[HistoryPart]:
    """The jobs from `since` until `until`, window after window."""
    begin, reported = since, set[str]()
    while begin < until:
        end = min(begin + span.seconds, until)
        started = clock.monotonic()
        try:
            answers = ask(begin, end)
        except TOO_MUCH:
            if not span.shrink():
                raise
            continue
        took = clock.monotonic() - started
        inside = _ended_in(begin, None if end == until else end)
        kept = [_only(batch, inside, reported) for batch in _each_once(answers)]
        for place, batch in enumerate(kept, 1):
            reached = end if place == len(kept) else begin
            share = (reached - since) / (until - since)
            yield HistoryPart(batch, reached, share, answers.notes if place == 1 else ())
        ended = sum(batch.frame.height for batch in kept)
        asked = sum(batch.frame.height for batch in (*answers.overlapping, *answers.cancelled))
        span.learn(ended, asked - ended, took)
        begin = end


def _ended_in(begin: int, end: int | None) -> pl.Expr:
    """In a window; in the last one (without end) also what has not ended, or only since it was asked for."""
    moment = pl.col("end")
    if end is None:
        return moment.is_null() | (moment >= begin)
    return ((moment >= begin) & (moment < end)).fill_null(False)


def _each_once(answers: WindowAnswer) -> Iterator[Batch]:
    """Those that overlap, and of the cancelled ones those that are not among them."""
    key = list(KEYS["job"])
    known = [batch.frame.select(key) for batch in answers.overlapping]
    yield from answers.overlapping
    for batch in answers.cancelled:
        frame = batch.frame
        for other in known:
            frame = frame.join(other, on=key, how="anti", maintain_order="left")
        yield Batch(batch.kind, frame, batch.bad)


def _only(batch: Batch, inside: pl.Expr, reported: set[str]) -> Batch:
    return Batch(batch.kind, batch.frame.filter(inside), tuple(_news(batch.bad, reported)))


def _news(rows: Iterable[BadRow], reported: set[str]) -> Iterator[BadRow]:
    """A row that cannot be read has no end: each window that it overlaps brings it again."""
    for row in rows:
        what = f"{row.field} {row.reason} {row.text}"
        if what not in reported:
            if len(reported) < _MOST_BAD:
                reported.add(what)
            yield row
