"""Retries with pauses, and a circuit breaker for a server that keeps failing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from forewarn.errors import PausedError, SchedulerError
from forewarn.sources.slurm.clock import Clock

T = TypeVar("T")
PAUSED = "paused for"  # how the message of a `PausedError` begins


@dataclass(slots=True, kw_only=True)
class RetryPolicy:
    """Retries with growing, randomly shortened pauses (so that clients do not return at once); and a breaker.

    After `failures` calls in a row that failed in all their tries, calls fail at once for `pause` seconds,
    which doubles each time; the next call is tried once, and decides.
    """

    tries: int = 4
    first: float = 0.5  # seconds
    longest: float = 20.0
    failures: int = 3
    pause: float = 30.0
    longest_pause: float = 600.0
    clock: Clock = field(default_factory=Clock)
    _failed: int = 0
    _closed_until: float | None = None
    _why: str = ""

    def attempt(self, call: Callable[[], T], *, once: tuple[type[SchedulerError], ...] = ()) -> T:
        """Call, and call again after a transient error, unless it is one of `once`; return the result."""
        tries_left = self.tries
        if self._closed_until is not None:
            wait = self._closed_until - self.clock.monotonic()
            if wait > 0:
                raise PausedError(
                    f"{PAUSED} {wait:.0f} s after repeated failures; the last one: {self._why}", wait
                )
            tries_left = 1
        delay = self.first
        while True:
            try:
                result = call()
            except SchedulerError as error:
                tries_left -= 1
                if isinstance(error, once) or not error.transient:
                    raise  # does not show whether the server is reachable
                if tries_left == 0:
                    self._note(error)
                    raise
                self.clock.sleep(delay * (0.5 + self.clock.random() / 2))
                delay = min(self.longest, delay * 2)
            else:
                self._failed, self._closed_until = 0, None
                return result

    def _note(self, error: SchedulerError) -> None:
        self._failed += 1
        self._why = str(error)
        over = self._failed - self.failures
        if over >= 0:
            pause = min(self.longest_pause, self.pause * 2**over)
            self._closed_until = self.clock.monotonic() + pause
