"""Which columns are worth having: by correlation with the outcome, and by importance to a quick model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from forewarn.errors import UsageError
from forewarn.learn.data.matrix import Sample
from forewarn.learn.families import family

MEASURES = ("correlation", "importance")
MOST_ROWS = 50_000  # rows that are looked at: ranks of more differ by less than a percent
QUICK_ROUNDS = 100  # of the model whose importance is taken


@dataclass(frozen=True, slots=True)
class Rankings:
    """What each column is worth by each measure: 0 for nothing, the more the better."""

    names: tuple[str, ...]  # in the order of the matrix
    by: Mapping[str, Mapping[str, float]]

    def kept(self, by: str, count: int) -> tuple[str, ...]:
        """The best columns by a measure, in the order of the matrix. Of equals the earlier one is better.

        >>> Rankings(("a", "b", "c"), {"correlation": {"a": 0.1, "b": 0.0, "c": 0.3}}).kept("correlation", 2)
        ('a', 'c')
        """
        if by not in self.by:
            raise UsageError(f"columns are not ranked by {by!r}; there are {', '.join(self.by)}")
        if count < 1:
            raise UsageError(f"at least one column must be kept, not {count}")
        worth = self.by[by]
        best = {*sorted(self.names, key=lambda name: -worth[name])[:count]}
        return tuple(name for name in self.names if name in best)

    def to_json(self) -> dict[str, Any]:
        """For the bundle and the report."""
        return {"names": list(self.names), "by": {measure: dict(worth) for measure, worth in self.by.items()}}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """From the bundle."""
        return cls(tuple(value["names"]), value["by"])


def rankings(train: Sample, *, seed: int, threads: int) -> Rankings:
    """Rank the columns of a train part. What lies after it must have no say in what a model sees."""
    if len(train) > MOST_ROWS:
        chosen = np.random.default_rng(seed).choice(len(train), MOST_ROWS, replace=False)
        train = train.rows(np.sort(chosen))
    model = family("xgboost").fit(train, {"rounds": QUICK_ROUNDS}, seed=seed, threads=threads)
    found = {"correlation": correlations(train), "importance": model.importance()}
    names = train.matrix.names
    return Rankings(
        names,
        {measure: dict(zip(names, map(float, found[measure]), strict=True)) for measure in MEASURES},
    )


def correlations(sample: Sample) -> NDArray[np.float64]:
    """How strongly each column goes with the outcome, from 0 to 1, whatever the direction.

    Spearman's rank correlation; of a categorical column, whose codes have no order, the correlation ratio:
    the share of the outcome's spread that lies between categories, as a root, so that both compare. Each is
    taken where the column has a value and counts by the share of such rows: what is seldom there seldom
    helps.
    """
    matrix = sample.matrix
    found = np.zeros(len(matrix.names))
    for place, name in enumerate(matrix.names):
        column = matrix.values[:, place]
        present = ~np.isnan(column)
        if not present.any():
            continue
        _, codes, counts = np.unique(column[present], return_inverse=True, return_counts=True)
        fails = sample.fails[present]
        if name in matrix.categorical:
            stands_for = np.bincount(codes, fails) / counts
        else:
            stands_for = np.cumsum(counts) - (counts - 1) / 2  # the mean rank of equals
        found[place] = _correlation(stands_for[codes], fails) * present.mean()
    return found


def _correlation(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    x, y = x - x.mean(), y - y.mean()
    spread = np.sqrt((x @ x) * (y @ y))
    # Rounding leaves a spread of its own in what is constant.
    return min(float(abs(x @ y) / spread), 1.0) if spread > 1e-9 * len(x) else 0.0
