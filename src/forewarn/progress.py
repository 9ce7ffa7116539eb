"""How whoever asked for long work hears of it: how far each stage is, and what is worth a note.

Both are passed in: the command line draws a line on the terminal, a notebook may show a bar. Without them
stages are silent, and notes go to the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import polars as pl


class StageProgress(Protocol):
    """Told how far a stage has come, and what else there is to tell."""

    def __call__(self, done: int, total: int | None = None, also: str = "") -> None:
        """So far."""


Watch = Callable[[str], AbstractContextManager[StageProgress]]  # shows a stage of the work while it runs
Working = Callable[[str], AbstractContextManager[object]]  # the same of work that cannot say how far it is
Note = Callable[[str], None]  # hears what a person should know, before the work is over
_log = logging.getLogger(__name__)
logging.getLogger("forewarn").addHandler(logging.NullHandler())  # a library is quiet unless asked


def unwatched(_: str) -> AbstractContextManager[StageProgress]:
    """Show nothing."""
    return nullcontext(lambda done, total=None, also="": None)  # noqa: ARG005


def logged(message: str) -> None:
    """Write a note to the log."""
    _log.warning(message)


def watched(frames: Iterable[pl.DataFrame], what: str, watch: Watch = unwatched) -> Iterator[pl.DataFrame]:
    """The frames, with how many rows there were so far shown on the way."""
    done = 0
    with watch(what) as far:
        for frame in frames:
            done += frame.height
            far(done)
            yield frame
