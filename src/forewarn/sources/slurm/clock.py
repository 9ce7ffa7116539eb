"""Time and chance as they are passed in: a test that waits an hour takes none."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Clock:
    """What a client needs of the world beside the scheduler."""

    now: Callable[[], float] = time.time  # Unix seconds
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    random: Callable[[], float] = random.random  # from 0 to 1
