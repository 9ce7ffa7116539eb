"""The input of a model: rows of numbers (`Matrix`), and rows with outcomes and weights (`Sample`)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[Any]  # row numbers, or a mask


@dataclass(frozen=True, slots=True)
class Matrix:
    """Feature values for a model. NaN is missing, and needs no imputation.

    A categorical column holds codes 0, 1, 2 …; a category that was rare or absent in training is NaN.
    """

    values: NDArray[np.float32]  # rows × columns
    names: tuple[str, ...]
    categorical: frozenset[str] = frozenset()

    def rows(self, which: Rows | slice) -> Matrix:
        """Select rows."""
        return replace(self, values=self.values[which])

    def columns(self, names: tuple[str, ...]) -> Matrix:
        """Select columns, in the order of `names`."""
        if names == self.names:
            return self
        return Matrix(
            self.values.take(places_of(self.names, names), axis=1),
            names,
            _categorical_of(names, self.categorical),
        )


@lru_cache(maxsize=1024)
def places_of(names: tuple[str, ...], selected: tuple[str, ...]) -> NDArray[np.intp]:
    """Find the places of selected columns. Cached: for one row, the lookup takes longer than its trees.

    >>> places_of(("a", "b", "c"), ("c", "a")).tolist()
    [2, 0]
    """
    location_of = {name: place for place, name in enumerate(names)}
    places = np.array([location_of[name] for name in selected], np.intp)
    places.flags.writeable = False  # all callers share the cached array
    return places


@lru_cache(maxsize=1024)
def _categorical_of(names: tuple[str, ...], categorical: frozenset[str]) -> frozenset[str]:
    return categorical.intersection(names)


def or_zero(values: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
    """Replace missing values by 0; for one row in a tenth of the time of `nan_to_num`."""
    return np.where(np.isnan(values), 0.0, values)


def effective(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scale weights so that they add up to the effective number of rows (Kish 1965).

    The parameters of regularisation count rows: without the scale, it would dominate where all weights are
    small.

    >>> effective(np.array([0.5, 0.5])).tolist(), round(float(effective(np.array([1.0, 0.1])).sum()), 2)
    ([1.0, 1.0], 1.2)
    """
    return np.asarray(weights * (weights.sum() / (weights**2).sum()))


@dataclass(frozen=True, slots=True)
class Sample:
    """Rows with their outcomes and weights."""

    matrix: Matrix
    fails: NDArray[np.float64]  # 1 or 0, never missing
    weights: NDArray[np.float64]

    def rows(self, which: Rows | slice) -> Sample:
        """Select rows."""
        return Sample(self.matrix.rows(which), self.fails[which], self.weights[which])

    def columns(self, names: tuple[str, ...]) -> Sample:
        """Select columns, in the order of `names`."""
        return replace(self, matrix=self.matrix.columns(names))

    def __len__(self) -> int:
        return len(self.fails)
