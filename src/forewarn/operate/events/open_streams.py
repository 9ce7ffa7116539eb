"""How many streams of events are open, and how many may be."""

from __future__ import annotations

from collections import Counter
from threading import Lock

from forewarn.errors import RateLimitError

MOST_OF_A_CALLER = 10
MOST_OF_ALL = 1000
TRY_AGAIN = 30.0  # seconds


class OpenStreams:
    """A count of open streams by caller."""

    def __init__(self, *, of_a_caller: int = MOST_OF_A_CALLER, of_all: int = MOST_OF_ALL) -> None:
        self._of_a_caller, self._of_all = of_a_caller, of_all
        self._open: Counter[str] = Counter()
        self._lock = Lock()

    def begin(self, caller: str) -> None:
        """Count a stream that opens; `RateLimitError` where there are too many."""
        with self._lock:
            if self._open[caller] >= self._of_a_caller or self._open.total() >= self._of_all:
                most = min(self._of_a_caller, self._of_all)
                raise RateLimitError(f"too many open streams of events: a caller may have {most}", TRY_AGAIN)
            self._open[caller] += 1

    def end(self, caller: str) -> None:
        """Count a stream that ends."""
        with self._lock:
            self._open[caller] -= 1
            self._open += Counter()  # without callers that have none
