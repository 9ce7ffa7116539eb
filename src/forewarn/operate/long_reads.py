"""Long reads of the store, one at a time: each takes seconds of all cores, and memory for a whole history."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from forewarn.errors import StoreBusyError

WAIT = 10.0  # seconds that a reader waits for the one before it


@contextmanager
def reading_alone(lock: Lock) -> Iterator[None]:
    """Wait until no other thread reads so; raise `StoreBusyError` if that takes too long."""
    if not lock.acquire(timeout=WAIT):
        raise StoreBusyError("others read a long history now; try again later, or ask for a shorter time")
    try:
        yield
    finally:
        lock.release()
