"""Recalibration of predicted distributions, by the share of later jobs that stayed below each quantile.

A model predicts that a job stays below a number with probability u. The share of later jobs that did is
estimated by Kaplan and Meier, so that a job which was cut short counts up to its end and no further. The two
together map predicted to observed probabilities.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
GRID = np.linspace(0.0, 1.0, 201)
WEIGHT = 100  # jobs; the weight of the model's own probabilities beside the jobs of the later block


@dataclass(frozen=True, slots=True)
class Recalibration:
    """A map from predicted probabilities (`GRID`) to observed ones."""

    observed: Floats

    @classmethod
    def identity(cls) -> Self:
        """Return the map that changes nothing."""
        return cls(GRID)

    @classmethod
    def fit(cls, predicted: Floats, exact: NDArray[np.bool_]) -> Self:
        """Fit to the probabilities predicted at later jobs' values; where not `exact`, at lower bounds."""
        if not len(predicted):
            return cls.identity()
        trust = len(predicted) / (len(predicted) + WEIGHT)
        observed = trust * kaplan_meier(predicted, exact, GRID) + (1 - trust) * GRID
        observed[0], observed[-1] = 0.0, 1.0
        return cls(np.maximum.accumulate(observed))

    def __call__(self, predicted: Floats) -> Floats:
        """Map predicted to observed probabilities.

        >>> predicted = np.linspace(0, 1, 2000) ** 2  # half of the jobs stay below the 25% quantile
        >>> Recalibration.fit(predicted, np.ones(2000, bool))(np.array([0.25])).round(2).tolist()
        [0.49]
        """
        return np.interp(predicted, GRID, self.observed)

    def inverse(self, levels: Floats) -> Floats:
        """Map observed to predicted probabilities."""
        return np.interp(levels, self.observed, GRID)

    def to_json(self) -> list[float]:
        """Return what the bundle stores."""
        return [float(value) for value in self.observed]

    @classmethod
    def from_json(cls, value: Sequence[float]) -> Self:
        """Read what the bundle stores."""
        observed = np.array(value, np.float64)
        is_rising = observed.shape == GRID.shape and not (np.diff(observed) < 0).any()
        if not is_rising or (observed[0], observed[-1]) != (0.0, 1.0):
            raise ValueError(
                f"levels: {len(value)} values, not {len(GRID)} probabilities that rise from 0 to 1"
            )
        return cls(observed)


def kaplan_meier(values: Floats, exact: NDArray[np.bool_], points: Floats) -> Floats:
    """Estimate the share at or below some points by Kaplan and Meier; inexact values are lower bounds.

    >>> values, exact = np.array([1.0, 2.0, 3.0, 4.0]), np.array([True, False, True, True])
    >>> kaplan_meier(values, exact, np.array([1.0, 3.0]))
    array([0.25 , 0.625])
    """
    order = np.lexsort((~exact, values))  # at equal values, jobs that ended before jobs that were cut short
    values, exact = values[order], exact[order]
    at_risk = len(values) - np.arange(len(values))
    survival = np.concatenate([[1.0], np.cumprod(np.where(exact, 1 - 1 / at_risk, 1.0))])
    return np.asarray(1 - survival[np.searchsorted(values, points, side="right")])
