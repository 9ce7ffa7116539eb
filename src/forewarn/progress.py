"""Progress of long work: how far each stage is, and notes worth reading.

Both are passed in by the caller: the command line draws a line on the terminal, a notebook may show a bar.
Without them, stages are silent and notes go to the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import polars as pl


class StageProgress(Protocol):
    """A callback that receives how far a stage has come."""

    def __call__(self, done: int, total: int | None = None, also: str = "") -> None:
        """Report progress."""


ShowProgress = Callable[[str], AbstractContextManager[StageProgress]]  # shows the progress of a stage
ShowActivity = Callable[[str], AbstractContextManager[object]]  # the same for work of unknown length
Note = Callable[[str], None]  # receives messages for people while work goes on
_log = logging.getLogger(__name__)
logging.getLogger("forewarn").addHandler(logging.NullHandler())  # a library is quiet unless asked


def no_progress(_: str) -> AbstractContextManager[StageProgress]:
    """Show nothing."""
    return nullcontext(lambda done, total=None, also="": None)  # noqa: ARG005


def log_note(message: str) -> None:
    """Write a note to the log."""
    _log.warning(message)


def with_progress(
    frames: Iterable[pl.DataFrame], what: str, watch: ShowProgress = no_progress
) -> Iterator[pl.DataFrame]:
    """Pass frames through and report the number of rows so far."""
    done = 0
    with watch(what) as progress:
        for frame in frames:
            done += frame.height
            progress(done)
            yield frame
