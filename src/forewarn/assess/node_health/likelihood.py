"""Whether a node's failures are more than chance: sick against healthy, by the ratio of their likelihoods.

A sick node fails some of the jobs that would have gone well. For each cell on the node the ratio says how
much better that explains what was seen; their sum is the node's score. How often a healthy node scores as
high is computed exactly (up to the grid that scores are rounded to), cell by cell.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from forewarn.assess.node_health.expected_failures import MOST, Floats, chance

SICK_FAILURE = 0.4  # of the jobs that would have gone well: what a sick node is taken to break
_GRID = 0.02


def scores(n: NDArray[np.int64], a: Floats, b: Floats, share: Floats) -> tuple[Floats, Floats]:
    """For each cell and count of failures 0 … MOST: its chance on a healthy node, and its score.

    `share` is how much of a failure of these jobs is laid to the node: 1 for jobs of one node.
    """
    counts = np.arange(MOST + 1)
    healthy = np.stack([np.where(f <= n, chance(n, np.minimum(f, n), a, b), 0) for f in counts], axis=1)
    sick = np.zeros_like(healthy)
    broken = SICK_FAILURE * share
    for h in counts:  # failures that there would have been anyway
        for more in range(MOST + 1 - h):
            left = n - h - more
            ways = np.where(left >= 0, _ways(np.maximum(n - h, 0), more), 0)
            sick[:, h + more] += healthy[:, h] * ways * broken**more * (1 - broken) ** np.maximum(left, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        score = np.where(healthy > 0, np.log(sick / healthy), 0)
    return healthy, np.round(score / _GRID) * _GRID


def _ways(n: NDArray[np.int64], k: int) -> Floats:
    made = np.ones(len(n))
    for i in range(k):
        made = made * (n - i) / (i + 1)
    return made


def tail(healthy: Floats, score: Floats, seen: float) -> float:
    """The chance that a healthy node with these cells scores `seen` or more."""
    steps = np.round(score / _GRID).astype(np.int64)
    low = np.where(healthy > 0, steps, 0).min(axis=1)
    spread = np.where(healthy > 0, steps - low[:, None], 0)
    total = np.zeros(int(spread.max(axis=1).sum()) + 1)
    total[0], reach = 1.0, 0
    for chances, shifts in zip(healthy, spread, strict=True):
        wide = reach + int(shifts.max()) + 1
        made = np.zeros(wide)
        for p, shift in zip(chances, shifts, strict=True):
            if p > 0:
                made[shift : shift + reach + 1] += p * total[: reach + 1]
        total[:wide], reach = made, wide - 1
    least = round(seen / _GRID) - int(low.sum())
    return float(min(1.0, total[max(0, least) :].sum()))


def benjamini_hochberg(p: Sequence[float]) -> list[float]:
    """Each p as the share of false alarms if all that are as small are believed.

    >>> benjamini_hochberg([0.01, 0.04, 0.03, 0.5])
    [0.04, 0.05333333333333334, 0.05333333333333334, 0.5]
    """
    order = np.argsort(p)[::-1]
    found, least = [1.0] * len(p), 1.0
    for place, at in enumerate(order):
        least = min(least, p[at] * len(p) / (len(p) - place))
        found[at] = least
    return found
