"""A lock that many readers hold at once, or one writer alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition


class ReadWriteLock:
    """Readers wait for a writer that waits already, so that many readers cannot keep it waiting for ever.

    A reader must not ask again while it holds the lock: a writer between the two would stop both.
    """

    def __init__(self) -> None:
        self._changed = Condition()
        self._readers = 0
        self._writers = 0  # at work or waiting
        self._is_written = False

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Hold it as one of many readers."""
        with self._changed:
            self._changed.wait_for(lambda: self._writers == 0)
            self._readers += 1
        try:
            yield
        finally:
            with self._changed:
                self._readers -= 1
                self._changed.notify_all()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold it alone."""
        with self._changed:
            self._writers += 1
            self._changed.wait_for(lambda: self._readers == 0 and not self._is_written)
            self._is_written = True
        try:
            yield
        finally:
            with self._changed:
                self._is_written = False
                self._writers -= 1
                self._changed.notify_all()
