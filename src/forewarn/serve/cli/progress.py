"""Progress of long work, on stderr: a live line on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from forewarn.serve.cli.output import say

# Called with how many are done since the last call.
Advance = Callable[[int], None]
PATIENCE = 2.0  # seconds before the first word: short work needs none
INTERVAL = 15.0  # seconds between plain lines


@contextmanager
def progress(what: str, total: int | None = None) -> Iterator[Advance]:
    """Show how far some work has come: `with progress("reading", total) as advance: ... advance(n)`."""
    with _live(what, total) if sys.stderr.isatty() else _plain(what, total) as advance:
        yield advance


@contextmanager
def _live(what: str, total: int | None) -> Iterator[Advance]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
    )

    bar = [BarColumn()] if total else []
    columns = [
        SpinnerColumn(),
        TextColumn("{task.description}"),
        *bar,
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    ]
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(what, total=total)
        yield lambda n: shown.advance(task, n)


@contextmanager
def _plain(what: str, total: int | None) -> Iterator[Advance]:
    done, next_word = 0, time.monotonic() + PATIENCE
    of = f" of {total:,}" if total else ""

    def advance(n: int) -> None:
        nonlocal done, next_word
        done += n
        if time.monotonic() >= next_word:
            say(f"{what}: {done:,}{of}")
            next_word = time.monotonic() + INTERVAL

    yield advance
