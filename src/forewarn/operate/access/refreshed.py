"""A value that another server has: read again when it is old, without holding up those who need it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from forewarn.errors import AccessError
from forewarn.sources.slurm.clock import Clock

Value = TypeVar("Value")
MOST_WAITING = 8  # threads
PAUSE = 5.0  # seconds between two reads, where the first failed and there is no former value


class KeySourceError(AccessError):
    """Public keys, or a provider's description, that cannot be read now."""

    status = 503
    code = "keys_unavailable"


class _Known(NamedTuple, Generic[Value]):
    value: Value
    read_at: float


class Refreshed(Generic[Value]):
    """A value that one thread at a time reads.

    The others go on with the former value meanwhile. Where there is none, or they ask to, some wait for the
    one that reads, but not for long: a server that is slow must not take all threads of a service. One that
    does not answer is asked again only after a moment, however many need it.

    Parameters
    ----------
    read
        Reads the value, or raises `KeySourceError`; then the former value still counts.
    place
        The server, for messages.
    """

    def __init__(
        self, read: Callable[[], Value], place: str, *, clock: Clock | None = None, wait: float = 5.0
    ) -> None:
        self._read, self._place, self._wait = read, place, wait
        self._clock = clock or Clock()
        self._known: _Known[Value] | None = None
        self._failure: tuple[KeySourceError, float] | None = None  # of the first read, and when
        self._reading = threading.Lock()  # held by the one that reads; `_known` is replaced as a whole
        self._places = threading.BoundedSemaphore(MOST_WAITING)

    @property
    def former(self) -> Value | None:
        """The value that was read last, however old."""
        return self._known.value if self._known else None

    def get(self, max_age: float, *, waits: bool = False) -> Value:
        """Return the value, read again if it is older than `max_age` seconds.

        `waits` is for a caller to whom the former value is of no use.
        """
        known = self._known
        if known is not None and self._is_fresh(known, max_age):
            return known.value
        if not self._begin_reading(waits=known is None or waits):
            if known is None:
                raise KeySourceError(f"{self._place}: does not answer yet")
            return known.value
        try:
            known = self._known  # another thread may have read it meanwhile
            if known is None or not self._is_fresh(known, max_age):
                known = _Known(self._read_or_keep(known), self._clock.monotonic())
                self._known = known
            return known.value
        finally:
            self._reading.release()

    def _begin_reading(self, *, waits: bool) -> bool:
        """Become the one that reads, or wait for it where there is a place; return whether that worked."""
        if self._reading.acquire(blocking=False):
            return True
        if not waits or not self._places.acquire(blocking=False):
            return False
        try:
            return self._reading.acquire(timeout=self._wait)
        finally:
            self._places.release()

    def _is_fresh(self, known: _Known[Value], max_age: float) -> bool:
        return self._clock.monotonic() - known.read_at <= max_age

    def _read_or_keep(self, known: _Known[Value] | None) -> Value:
        now = self._clock.monotonic()
        if known is None and self._failure is not None and now - self._failure[1] < PAUSE:
            raise KeySourceError(str(self._failure[0]))
        try:
            return self._read()
        except KeySourceError as error:
            if known is None:
                self._failure = error, self._clock.monotonic()
                raise
            return known.value
