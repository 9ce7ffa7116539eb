"""Limits on how often one caller may ask."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict

from forewarn.errors import RateLimitError
from forewarn.sources.slurm.clock import Clock

_MOST_CALLERS = 10_000


class RateLimiter:
    """A bucket for each caller that fills with `per_minute` requests in a minute, and holds as many.

    >>> limiter = RateLimiter(2, clock=Clock(monotonic=lambda: 0.0))
    >>> limiter.check("ann"), limiter.check("ann"), limiter.check("ben")
    (None, None, None)
    >>> limiter.check("ann")
    Traceback (most recent call last):
    forewarn.errors.RateLimitError: more than 2 requests a minute: try again in 30 s
    """

    def __init__(self, per_minute: int, *, clock: Clock | None = None) -> None:
        self._per_minute = per_minute
        self._clock = clock or Clock()
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # caller: requests left, when
        self._lock = threading.Lock()

    def check(self, caller: str) -> None:
        """Count a request of a caller; raise `RateLimitError` if it is one too many."""
        wait = self._take(caller, 1.0)
        if wait > 0:
            raise RateLimitError(
                f"more than {self._per_minute:,} requests a minute: try again in {math.ceil(wait)} s", wait
            )

    def is_exhausted(self, caller: str) -> float:
        """Return the seconds until the caller's next request is served; 0 if it is now."""
        return self._take(caller, 0.0)

    def _take(self, caller: str, cost: float) -> float:
        now, rate = self._clock.monotonic(), self._per_minute / 60
        with self._lock:
            left, at = self._buckets.get(caller, (float(self._per_minute), now))
            left = min(self._per_minute, left + (now - at) * rate)
            if left < 1:
                return (1 - left) / rate
            if cost:
                self._buckets[caller] = (left - cost, now)
                self._buckets.move_to_end(caller)
                # The caller that was served longest ago is forgotten: its bucket is most likely full again.
                if len(self._buckets) > _MOST_CALLERS:
                    self._buckets.popitem(last=False)
        return 0.0
