"""Ranking of columns by their correlation with the outcome and by their importance to a quick model."""

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
MOST_ROWS = 50_000  # rows used: with more, ranks differ by less than one percent
QUICK_ROUNDS = 100  # boosting rounds of the model whose importance is used


@dataclass(frozen=True, slots=True)
class Rankings:
    """The score of each column by each measure; 0 is useless, higher is better."""

    names: tuple[str, ...]  # in the order of the matrix
    by: Mapping[str, Mapping[str, float]]

    def best(self, by: str, count: int) -> tuple[str, ...]:
        """Select the best columns by a measure, in the order of the matrix. On a tie the earlier one wins.

        >>> Rankings(("a", "b", "c"), {"correlation": {"a": 0.1, "b": 0.0, "c": 0.3}}).best("correlation", 2)
        ('a', 'c')
        """
        if by not in self.by:
            raise UsageError(f"columns are not ranked by {by!r}; choose from {', '.join(self.by)}")
        if count < 1:
            raise UsageError(f"at least one column must be kept, not {count}")
        scores = self.by[by]
        best = {*sorted(self.names, key=lambda name: -scores[name])[:count]}
        return tuple(name for name in self.names if name in best)

    def to_json(self) -> dict[str, Any]:
        """Return the form that the bundle and the report store."""
        by = {measure: dict(scores) for measure, scores in self.by.items()}
        return {"names": list(self.names), "by": by}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Read the form that the bundle stores."""
        return cls(tuple(value["names"]), value["by"])


def rankings(train: Sample, *, seed: int, threads: int) -> Rankings:
    """Rank the columns of a train block. Later jobs must not influence which columns a model sees."""
    if len(train) > MOST_ROWS:
        rows = np.random.default_rng(seed).choice(len(train), MOST_ROWS, replace=False)
        train = train.rows(np.sort(rows))
    model = family("xgboost").fit(train, {"rounds": QUICK_ROUNDS}, seed=seed, threads=threads)
    scores = {"correlation": correlations(train), "importance": model.importance()}
    names = train.matrix.names
    return Rankings(
        names,
        {measure: dict(zip(names, map(float, scores[measure]), strict=True)) for measure in MEASURES},
    )


def correlations(sample: Sample) -> NDArray[np.float64]:
    """Compute the absolute correlation of each column with the outcome, from 0 to 1.

    For numbers it is Spearman's rank correlation. For a categorical column, whose codes have no order, it is
    the correlation ratio: the root of the share of the outcome's variance that lies between categories, which
    is on the same scale. Both use the rows in which the column has a value, and are multiplied by the share
    of such rows: a column that is seldom present seldom helps.
    """
    matrix = sample.matrix
    strengths = np.zeros(len(matrix.names))
    for place, name in enumerate(matrix.names):
        column = matrix.values[:, place]
        present = ~np.isnan(column)
        if not present.any():
            continue
        _, codes, counts = np.unique(column[present], return_inverse=True, return_counts=True)
        fails = sample.fails[present]
        if name in matrix.categorical:
            scores = np.bincount(codes, fails) / counts  # the failure rate of each category
        else:
            scores = np.cumsum(counts) - (counts - 1) / 2  # the mean rank of equal values
        strengths[place] = _correlation(scores[codes], fails) * present.mean()
    return strengths


def _correlation(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    x, y = x - x.mean(), y - y.mean()
    spread = np.sqrt((x @ x) * (y @ y))
    # Rounding leaves a small spread even in a constant column.
    return min(float(abs(x @ y) / spread), 1.0) if spread > 1e-9 * len(x) else 0.0
