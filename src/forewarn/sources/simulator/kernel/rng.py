"""Random numbers without state: a draw is a function of the seed, its subject and its purpose.

So the same person, job or node rolls the same numbers whatever happens around it, however the
simulation is cut into batches. The mixing is splitmix64's.
"""

from __future__ import annotations

from math import cos, log, pi, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarn.compiled import typed

# Whom a draw is for.
USER, WORKFLOW, CAMPAIGN, CASE, JOB, NODE, CLUSTER = 1, 2, 3, 4, 5, 6, 7


@typed("uint64(uint64, int64)")
def mix(key: Any, salt: Any) -> Any:
    """Derive a key from a key and a number."""
    z = np.uint64(key) + (np.uint64(salt) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@typed("uint64(uint64, int64, int64)")
def key_of(seed: Any, space: Any, number: Any) -> Any:
    """Return the key of one person, job, node …"""
    return mix(mix(seed, space), number)


@typed("float64(uint64, int64)")
def uniform(key: Any, salt: Any) -> float:
    """Draw a number between 0 and 1, both excluded."""
    return (np.float64(mix(key, salt) >> np.uint64(11)) + 0.5) / 9007199254740992.0


@typed("float64(uint64, int64)")
def normal(key: Any, salt: Any) -> float:
    """Draw a standard normal number (Box and Muller)."""
    return sqrt(-2.0 * log(uniform(key, salt))) * cos(2.0 * pi * uniform(key, salt + 7919))


@typed("float64(uint64, int64)")
def exponential(key: Any, salt: Any) -> float:
    """Draw an exponential number with mean 1."""
    return -log(uniform(key, salt))


@typed("int64(uint64, int64, int64)")
def below(key: Any, salt: Any, count: Any) -> int:
    """Draw one of 0 … count - 1."""
    return int(min(int(uniform(key, salt) * count), count - 1))


@typed("float64[::1](uint64, int64, int64[::1], int64)")
def uniforms(seed: Any, space: Any, numbers: NDArray[np.int64], salt: Any) -> NDArray[np.float64]:
    """Draw `uniform` for each of many."""
    drawn = np.empty(numbers.size)
    for i in range(numbers.size):
        drawn[i] = uniform(key_of(seed, space, numbers[i]), salt)
    return drawn
