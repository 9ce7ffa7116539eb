"""What a model sees: rows of numbers, and what became of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[Any]  # places of rows, or a mask over them


@dataclass(frozen=True, slots=True)
class Matrix:
    """Rows for a model. NaN is missing, and needs no imputation.

    A categorical column holds codes 0, 1, 2 …; a category that was not there in training is NaN.
    """

    values: NDArray[np.float32]  # rows × columns
    names: tuple[str, ...]
    categorical: frozenset[str] = frozenset()

    def rows(self, which: Rows) -> Matrix:
        """Some of the rows."""
        return replace(self, values=self.values[which])

    def columns(self, names: tuple[str, ...]) -> Matrix:
        """Some of the columns, in the order asked for."""
        if names == self.names:
            return self
        return Matrix(
            self.values.take(places_of(self.names, names), axis=1),
            names,
            _categorical_of(names, self.categorical),
        )


@lru_cache(maxsize=1024)
def places_of(names: tuple[str, ...], wanted: tuple[str, ...]) -> NDArray[np.intp]:
    """Find where some columns are. Remembered: for one row, looking for them takes longer than its trees.

    >>> places_of(("a", "b", "c"), ("c", "a")).tolist()
    [2, 0]
    """
    at = {name: place for place, name in enumerate(names)}
    found = np.array([at[name] for name in wanted], np.intp)
    found.flags.writeable = False  # it is everybody's
    return found


@lru_cache(maxsize=1024)
def _categorical_of(names: tuple[str, ...], categorical: frozenset[str]) -> frozenset[str]:
    return categorical.intersection(names)


def or_zero(values: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
    """The values with 0 for what is missing: for one row, a tenth of what `nan_to_num` takes."""
    return np.where(np.isnan(values), 0.0, values)


def effective(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """The weights in a scale in which they add up to as many rows as they are worth (Kish 1965).

    How strongly a fit is held back is set in rows: where all weigh little, that must not be all it sees.

    >>> effective(np.array([0.5, 0.5])).tolist(), round(float(effective(np.array([1.0, 0.1])).sum()), 2)
    ([1.0, 1.0], 1.2)
    """
    return np.asarray(weights * (weights.sum() / (weights**2).sum()))


@dataclass(frozen=True, slots=True)
class Sample:
    """Rows with what became of them, and how much each counts."""

    matrix: Matrix
    fails: NDArray[np.float64]  # 1 or 0, never missing
    weights: NDArray[np.float64]

    def rows(self, which: Rows) -> Sample:
        """Some of the rows."""
        return Sample(self.matrix.rows(which), self.fails[which], self.weights[which])

    def columns(self, names: tuple[str, ...]) -> Sample:
        """All rows with some of the columns."""
        return replace(self, matrix=self.matrix.columns(names))

    def __len__(self) -> int:
        return len(self.fails)
