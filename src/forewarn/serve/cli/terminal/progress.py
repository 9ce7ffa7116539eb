"""Show progress of long work on stderr: a live line on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from forewarn.formatting import elapsed
from forewarn.progress import StageProgress
from forewarn.serve.cli.terminal.console import Terminal
from forewarn.serve.cli.terminal.output import say

PATIENCE = 2.0  # seconds before the first line: short work needs none
INTERVAL = 15.0  # seconds between plain lines


@contextmanager
def progress(what: str) -> Iterator[StageProgress]:
    """Show how far some work has come: ``with progress("reading") as report: … report(done)``."""
    with _live(what) if sys.stderr.isatty() else _plain(what) as report:
        yield report


@contextmanager
def working(what: str) -> Iterator[None]:
    """Announce work that may take long and cannot report how far it is."""
    with _live(what) if sys.stderr.isatty() else _soon(lambda: say(_begun(what))):
        yield


@contextmanager
def _live(what: str) -> Iterator[StageProgress]:
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    bar = BarColumn(bar_width=24)
    what_column = TextColumn("{task.description}", markup=False)
    columns = SpinnerColumn(), what_column, bar, TextColumn("{task.fields[far]}", markup=False)
    with Progress(*columns, TimeElapsedColumn(), console=Terminal(err=True), transient=True) as shown:
        task = shown.add_task(what, total=None, far="")

        def report(done: int, total: int | None = None, also: str = "") -> None:
            shown.update(task, description=what, completed=done, total=total, far=_far(done, total, also))

        with _soon(lambda: shown.update(task, description=_begun(what))) as unless:
            yield _first(unless, report)


@contextmanager
def _plain(what: str) -> Iterator[StageProgress]:
    begun = time.monotonic()
    next_line, reported = begun + PATIENCE, False

    def report(done: int, total: int | None = None, also: str = "") -> None:
        nonlocal next_line, reported
        if time.monotonic() >= next_line:
            say(f"{what}: {_far(done, total, also)}")
            next_line = time.monotonic() + INTERVAL
        reported = True

    with _soon(lambda: say(_begun(what))) as unless:
        yield _first(unless, report)
    if not reported and time.monotonic() >= next_line:  # work that cannot report how far it is
        say(f"{what}: {elapsed(time.monotonic() - begun)}")


@contextmanager
def _soon(announce: Callable[[], None]) -> Iterator[Callable[[], None]]:
    """Call `announce` after a while, unless the block has ended or called what it was given before."""
    timer = threading.Timer(PATIENCE, announce)
    timer.daemon = True
    timer.start()
    try:
        yield timer.cancel
    finally:
        timer.cancel()


def _first(before: Callable[[], None], report: StageProgress) -> StageProgress:
    def reporting(done: int, total: int | None = None, also: str = "") -> None:
        before()
        report(done, total, also)

    return reporting


def _begun(what: str) -> str:
    """Write the line for work that has reported nothing yet, with the reason where its code is cold."""
    compiled = sys.modules.get("forewarn.compiled")  # not imported here: it takes long
    is_cold = compiled is not None and compiled.is_cold()
    return f"{what} …" + (" (its code is compiled first, once: about half a minute)" if is_cold else "")


def _far(done: int, total: int | None, also: str) -> str:
    """Write how far the work is.

    >>> _far(1200, None, ""), _far(3, 20, "best loss 0.31")
    ('1,200', '3 of 20, best loss 0.31')
    """
    far = f"{done:,} of {total:,}" if total else f"{done:,}"
    return f"{far}, {also}" if also else far
