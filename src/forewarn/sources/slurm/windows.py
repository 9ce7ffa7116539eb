"""Collection of a history in windows of time, whose length adapts to the size of the answers.

The answer to a window has every job that overlaps it. So that no job comes twice and none need be remembered,
a job is taken from the window in which it ended; one that has not ended, from the last.
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

# Errors that a smaller window may avoid. A server that died of an answer must not get the same request again.
TOO_MUCH = (SlowAnswerError, LostAnswerError, LargeAnswerError)
# States that end a run: a job that was requeued has one for each run.
ENDED_STATES = (
    *("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE"),
    *("OUT_OF_MEMORY", "REQUEUED"),
)
_MOST_BAD = 10_000  # bad rows remembered, so that each is reported once


@dataclass(frozen=True, slots=True)
class WindowAnswer:
    """The scheduler's answer to one window."""

    overlapping: list[Batch]
    # Cancelled in it before they were eligible: Slurm places a job in time by its eligible time, so these
    # overlap no window.
    cancelled: list[Batch]
    notes: tuple[str, ...] = ()


Ask = Callable[[int, int], WindowAnswer]


@dataclass(slots=True, kw_only=True)
class WindowLength:
    """The length of the next window: never so long that the busiest rate so far would make it too large.

    A busy time may follow a quiet one, in which windows have grown.
    """

    seconds: int = 3600
    shortest: int = 60
    longest: int = 12 * 3600
    rows: int = 4000  # intended size of an answer: about 20 MB of JSON, and 350 MB of slurmrestd's memory
    slow: float = 10.0  # seconds
    busiest: float = 0.0  # jobs a second, so far

    def learn(self, ended: int, carried: int, took: float) -> None:
        """Adapt the next window to the last answer: jobs that ended in it, and jobs that only overlap it.

        Jobs that overlap come however short a window is: the window is fitted to the rows that they leave.

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
        """Shorten it to a quarter; False where it is already the shortest."""
        before = self.seconds
        self._scale(0.25)
        return self.seconds < before

    def _scale(self, factor: float) -> None:
        longest = min(self.longest, 4 * self.rows / self.busiest) if self.busiest else self.longest
        self.seconds = max(self.shortest, int(min(longest, self.seconds * factor)))


def collect_windows(
    ask: Ask, since: int, until: int, span: WindowLength, clock: Clock
) -> Iterator[HistoryPart]:
    """Yield the jobs from `since` until `until`, window by window."""
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
        selected = [_select(batch, inside, reported) for batch in _each_once(answers)]
        for place, batch in enumerate(selected, 1):
            reached = end if place == len(selected) else begin
            share = (reached - since) / (until - since)
            yield HistoryPart(batch, reached, share, answers.notes if place == 1 else ())
        ended = sum(batch.frame.height for batch in selected)
        received = sum(batch.frame.height for batch in (*answers.overlapping, *answers.cancelled))
        span.learn(ended, received - ended, took)
        begin = end


def _ended_in(begin: int, end: int | None) -> pl.Expr:
    """Select jobs that ended in a window; in the last one (`end` None) also those that ended later or not."""
    job_end = pl.col("end")
    if end is None:
        return job_end.is_null() | (job_end >= begin)
    return ((job_end >= begin) & (job_end < end)).fill_null(False)


def _each_once(answers: WindowAnswer) -> Iterator[Batch]:
    """Yield the overlapping jobs, and of the cancelled ones those that are not among them."""
    key = list(KEYS["job"])
    overlapping_keys = [batch.frame.select(key) for batch in answers.overlapping]
    yield from answers.overlapping
    for batch in answers.cancelled:
        frame = batch.frame
        for other in overlapping_keys:
            frame = frame.join(other, on=key, how="anti", maintain_order="left")
        yield Batch(batch.kind, frame, batch.bad)


def _select(batch: Batch, inside: pl.Expr, reported: set[str]) -> Batch:
    return Batch(batch.kind, batch.frame.filter(inside), tuple(_unreported(batch.bad, reported)))


def _unreported(rows: Iterable[BadRow], reported: set[str]) -> Iterator[BadRow]:
    """Yield bad rows not reported before: one without an end comes again in each window that it overlaps."""
    for row in rows:
        text = f"{row.field} {row.reason} {row.text}"
        if text not in reported:
            if len(reported) < _MOST_BAD:
                reported.add(text)
            yield row
