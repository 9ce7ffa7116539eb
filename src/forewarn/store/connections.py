"""A pool of connections to one SQLite file, for any number of threads."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

from forewarn.errors import StoreError
from forewarn.store.database import store_errors

# More than so many that nobody uses are closed: each holds two open files.
MOST_IDLE = 16


class Connections:
    """A pool that lends each connection to one borrower and opens one if none is idle.

    Closing it lets whoever has borrowed one finish: theirs is closed when they give it back. `last_closed` is
    called whenever the last one has been closed after that.
    """

    def __init__(
        self,
        file: Path,
        busy_seconds: float,
        opened: Callable[[], sqlite3.Connection],
        last_closed: Callable[[], None],
    ) -> None:
        self._file, self._busy_seconds, self._opened = file, busy_seconds, opened
        self._last_closed = last_closed
        self._lock = Lock()
        self._idle: list[sqlite3.Connection] = []
        self._lent = 0
        self._closed = False

    @contextmanager
    def borrow(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection outside of a transaction to one borrower; its errors become `StoreError`."""
        with store_errors(self._file, self._busy_seconds):
            connection = self._taken()
            try:
                yield connection
            finally:
                try:
                    # After some errors (a full disk) SQLite has ended it itself.
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                finally:
                    self._give_back(connection)

    def close(self) -> None:
        """Close idle connections and lend no more."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            is_last = not self._lent
        for connection in idle:
            connection.close()
        if is_last:
            self._last_closed()

    def _taken(self) -> sqlite3.Connection:
        with self._lock:
            if self._closed:
                raise StoreError(f"{self._file}: the store has been closed")
            self._lent += 1
            if self._idle:
                return self._idle.pop()
        try:
            return self._opened()
        except BaseException:
            with self._lock:
                self._lent -= 1
            raise

    def _give_back(self, connection: sqlite3.Connection) -> None:
        with self._lock:
            is_sound = not connection.in_transaction  # else it could not be rolled back
            if is_sound and not self._closed and len(self._idle) < MOST_IDLE:
                self._idle.append(connection)
                self._lent -= 1
                return
        connection.close()
        with self._lock:
            self._lent -= 1
            is_last = self._closed and not self._lent
        if is_last:
            self._last_closed()
