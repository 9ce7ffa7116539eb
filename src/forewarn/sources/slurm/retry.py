"""How a call is tried again, and when a server that keeps failing is left alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from forewarn.errors import PausedError, SchedulerError
from forewarn.sources.slurm.clock import Clock

T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class RetryPolicy:
    """Tries with growing pauses, cut by chance so that many clients do not come back at once; and a breaker.

    After `failures` calls in a row that failed for all their tries, calls fail at once for `pause`
    seconds, which doubles each time; the call after that is tried once, and decides.
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
        """The result of a call, tried again where the trouble may pass, unless it is one of `once`."""
        left = self.tries
        if self._closed_until is not None:
            wait = self._closed_until - self.clock.monotonic()
            if wait > 0:
                raise PausedError(f"left alone for {wait:.0f} s more, after: {self._why}", wait)
            left = 1
        delay = self.first
        while True:
            try:
                result = call()
            except SchedulerError as error:
                left -= 1
                if isinstance(error, once) or not error.transient:
                    raise  # says nothing about whether the server is there
                if left == 0:
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
