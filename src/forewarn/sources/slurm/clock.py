"""Time and randomness as arguments, so that a test of an hour's waiting takes no time."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Clock:
    """The clocks, the sleep and the random numbers that a client uses."""

    now: Callable[[], float] = time.time  # Unix seconds
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    random: Callable[[], float] = random.random  # from 0 to 1
    speed: float = (
        1.0  # seconds of `now` in a second of `sleep`: the clock of a simulated cluster may be faster
    )
