"""A lock that many readers hold at once, or one writer alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition


class ReadWriteLock:
    """A lock of which readers wait for a waiting writer, so that they cannot starve it.

    A reader must not take the lock again while it holds it: a writer that waits between would block both.
    """

    def __init__(self) -> None:
        self._changed = Condition()
        self._readers = 0
        self._writers = 0  # that hold the lock or wait for it
        self._is_held_by_writer = False

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Hold the lock as one of many readers."""
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
        """Hold the lock as the only one."""
        with self._changed:
            self._writers += 1
            self._changed.wait_for(lambda: self._readers == 0 and not self._is_held_by_writer)
            self._is_held_by_writer = True
        try:
            yield
        finally:
            with self._changed:
                self._is_held_by_writer = False
                self._writers -= 1
                self._changed.notify_all()
