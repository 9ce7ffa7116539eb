"""Small compiled functions on numbers: hashes, steps, rates."""

from __future__ import annotations

import numpy as np

from forewarn.compiled import inner
from forewarn.features.kernel import layout as L
from forewarn.features.kernel.similarity import FAR
from forewarn.features.kernel.state import Floats


@inner
def mix(h: np.uint64, v: np.uint64) -> np.uint64:
    """Join two hashes (splitmix64's finaliser)."""
    z = h * np.uint64(0x9E3779B97F4A7C15) + v + np.uint64(0x632BE59BD9B4E019)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@inner
def whole(v: float) -> np.uint64:
    """Encode a number as part of a key; missing is a value of its own."""
    return np.uint64(0) if np.isnan(v) else np.uint64(np.int64(v) + 1)


@inner
def short(h: np.uint64) -> float:
    """Reduce a hash to one that a float64 holds exactly."""
    return np.float64(h >> np.uint64(12))


@inner
def pair(salt: int, a: np.uint64, b: np.uint64) -> np.uint64:
    """Compute the key of an entity of two parts; 0, no entity, if one is missing."""
    if a == 0 or b == 0:
        return np.uint64(0)
    return mix(mix(np.uint64(salt + 1), a), b)


@inner
def rate(s: float, w: float) -> float:
    """Divide failures by jobs; NaN if there are none yet."""
    return s / w if w > 0.0 else np.nan


@inner
def steps(v: float, width: float, most: int) -> int:
    """Bin a number logarithmically; the last bin is for missing."""
    if np.isnan(v):
        return most + 1
    return min(most, int(np.log2(max(v, 0.0) + 1.0) / width))


@inner
def fifths(rate: float) -> int:
    """Bin a rate into fifths; 6 is for missing."""
    return 6 if np.isnan(rate) else int(rate * 5.0 + 0.5)


@inner
def clipped(v: float, most: int) -> int:
    """Clip a signed count, shifted to start at 0."""
    return int(max(-most, min(most, v))) + most


@inner
def three(v: float) -> int:
    """Encode an outcome: completed, failed, or none yet."""
    return 2 if np.isnan(v) else int(v)


@inner
def log_ratio(asked: float, logs: float, weight: float) -> float:
    """Compute log2 of the requested to the usual amount; NaN if either is missing."""
    if weight <= 0.0 or not asked > 0.0 or np.isinf(logs):  # a log of nothing asked is infinite
        return np.nan
    return np.log2(asked) - logs / weight


@inner
def signed_steps(v: float) -> int:
    """Bin a log ratio into whole steps from -4 to 4, shifted to start at 0; 9 is for missing."""
    return 9 if np.isnan(v) else int(max(-4.0, min(4.0, np.floor(v)))) + 4


@inner
def total_memory(x: Floats) -> float:
    """Compute the bytes that the whole job requests, by the unit of its request: as in `job/memory.py`."""
    per = x[L.X_MEMORY_PER]
    if per == 2.0:
        return x[L.X_MEMORY] * (1.0 if np.isnan(x[L.X_CPUS]) else x[L.X_CPUS])
    if per == 3.0:
        return x[L.X_MEMORY] * (1.0 if np.isnan(x[L.X_GPUS]) else max(x[L.X_GPUS], 1.0))
    return x[L.X_MEMORY] * (1.0 if np.isnan(x[L.X_NODES]) else max(x[L.X_NODES], 1.0))


@inner
def task_memory(x: Floats) -> float:
    """Compute the bytes requested per task, to compare with the largest task's use.

    Without a number of tasks (sacct's text): per CPU if the request is per CPU, else per node.
    """
    if x[L.X_TASKS] >= 1.0:
        return total_memory(x) / x[L.X_TASKS]
    if x[L.X_MEMORY_PER] == 2.0:
        return x[L.X_MEMORY]
    return total_memory(x) / (x[L.X_NODES] if x[L.X_NODES] >= 1.0 else 1.0)


@inner
def apart(a: float, b: float) -> float:
    """Return the distance of two logarithms; missing against present is far."""
    if np.isnan(a) or np.isnan(b):
        return 0.0 if np.isnan(a) and np.isnan(b) else FAR
    return abs(a - b)
