"""Writes of upkeep: a task in the background that waits for its turn where others write all the time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from time import monotonic
from typing import TypeVar

from forewarn.errors import StoreBusyError
from forewarn.store.base import Store, StoreWriter

LONGEST_WAIT = 900.0  # seconds for one step; each try lasts as long as the store waits for a writer
Result = TypeVar("Result")


def patiently(act: Callable[[], Result]) -> Result:
    """Do something that changes nothing if the store is busy, again until it is not; at most so long."""
    until = monotonic() + LONGEST_WAIT
    while True:
        try:
            return act()
        except StoreBusyError:
            if monotonic() >= until:
                raise


@contextmanager
def writing_patiently(store: Store) -> Iterator[StoreWriter]:
    """Begin a write, waiting for its turn longer than others do; the block itself runs once."""
    with ExitStack() as stack:
        yield patiently(lambda: stack.enter_context(store.writing()))
