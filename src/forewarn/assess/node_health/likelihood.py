"""The likelihood ratio of a sick against a healthy node, and its distribution for healthy nodes.

A sick node fails some of the jobs that would have completed. For each cell on the node, the log likelihood
ratio says how much better that explains the observed failures; the sum is the node's score. The probability
that a healthy node scores as high is computed exactly (up to the grid that scores are rounded to), cell by
cell.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from forewarn.assess.node_health.expected_failures import MOST, Floats, probability

SICK_FAILURE = 0.4  # share of jobs that would have completed and that a sick node is assumed to fail
_GRID = 0.02


def scores(n: NDArray[np.int64], a: Floats, b: Floats, share: Floats) -> tuple[Floats, Floats]:
    """Compute for each cell and count of failures 0 … MOST its probability on a healthy node, and its score.

    `share` is the part of a failure that is attributed to the node: 1 for jobs on one node.
    """
    counts = np.arange(MOST + 1)
    healthy = np.stack([np.where(f <= n, probability(n, np.minimum(f, n), a, b), 0) for f in counts], axis=1)
    sick = np.zeros_like(healthy)
    added = SICK_FAILURE * share
    for h in counts:  # failures that also a healthy node would have had
        for more in range(MOST + 1 - h):
            left = n - h - more
            ways = np.where(left >= 0, _ways(np.maximum(n - h, 0), more), 0)
            sick[:, h + more] += healthy[:, h] * ways * added**more * (1 - added) ** np.maximum(left, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        score = np.where(healthy > 0, np.log(sick / healthy), 0)
    return healthy, np.round(score / _GRID) * _GRID


def _ways(n: NDArray[np.int64], k: int) -> Floats:
    """Compute the binomial coefficients n over k."""
    product = np.ones(len(n))
    for i in range(k):
        product = product * (n - i) / (i + 1)
    return product


def tail(healthy: Floats, score: Floats, observed: float) -> float:
    """Compute the probability that a healthy node with these cells scores `observed` or more."""
    steps = np.round(score / _GRID).astype(np.int64)
    low = np.where(healthy > 0, steps, 0).min(axis=1)
    spread = np.where(healthy > 0, steps - low[:, None], 0)
    total = np.zeros(int(spread.max(axis=1).sum()) + 1)
    total[0], reach = 1.0, 0
    for probabilities, shifts in zip(healthy, spread, strict=True):
        width = reach + int(shifts.max()) + 1
        convolved = np.zeros(width)
        for p, shift in zip(probabilities, shifts, strict=True):
            if p > 0:
                convolved[shift : shift + reach + 1] += p * total[: reach + 1]
        total[:width], reach = convolved, width - 1
    least = round(observed / _GRID) - int(low.sum())
    return float(min(1.0, total[max(0, least) :].sum()))


def benjamini_hochberg(p: Sequence[float]) -> list[float]:
    """Convert p-values to q-values: the false discovery rate if all p-values as small are accepted.

    >>> benjamini_hochberg([0.01, 0.04, 0.03, 0.5])
    [0.04, 0.05333333333333334, 0.05333333333333334, 0.5]
    """
    order = np.argsort(p)[::-1]
    q, least = [1.0] * len(p), 1.0
    for rank, index in enumerate(order):
        least = min(least, p[index] * len(p) / (len(p) - rank))
        q[index] = least
    return q
