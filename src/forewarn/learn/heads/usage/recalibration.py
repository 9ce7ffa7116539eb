"""Levels that hold: what share of later jobs really stayed below what was said with a chance.

A model says that a job stays below a number with the chance u. Of the jobs of a later block, the share that
did is estimated by Kaplan and Meier, so that a job which was cut short counts as long as it was seen and no
longer. The two together map what is said to what holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
GRID = np.linspace(0.0, 1.0, 201)
WEIGHT = 100  # jobs' worth that the model's own word counts beside those of the later block


@dataclass(frozen=True, slots=True)
class Recalibration:
    """For chances as said (`GRID`), the chances that hold."""

    holds: Floats

    @classmethod
    def plain(cls) -> Self:
        """What is said, holds."""
        return cls(GRID)

    @classmethod
    def fit(cls, said: Floats, exact: NDArray[np.bool_]) -> Self:
        """From what was said of what came true (or, not exact, of what was outlived)."""
        if not len(said):
            return cls.plain()
        trust = len(said) / (len(said) + WEIGHT)
        found = trust * below(said, exact, GRID) + (1 - trust) * GRID
        found[0], found[-1] = 0.0, 1.0
        return cls(np.maximum.accumulate(found))

    def __call__(self, said: Floats) -> Floats:
        """The chance that holds.

        >>> said = np.linspace(0, 1, 2000) ** 2  # of half the jobs it was said with 25 % or less
        >>> Recalibration.fit(said, np.ones(2000, bool))(np.array([0.25])).round(2).tolist()
        [0.49]
        """
        return np.interp(said, GRID, self.holds)

    def to_say(self, levels: Floats) -> Floats:
        """Find what has to be said for chances to hold."""
        return np.interp(levels, self.holds, GRID)

    def to_json(self) -> list[float]:
        """For the bundle."""
        return [float(value) for value in self.holds]

    @classmethod
    def from_json(cls, value: Sequence[float]) -> Self:
        """From the bundle."""
        holds = np.array(value, np.float64)
        if holds.shape != GRID.shape or (np.diff(holds) < 0).any() or not (holds[0], holds[-1]) == (0.0, 1.0):
            raise ValueError(f"no levels: {len(value)} values")
        return cls(holds)


def below(values: Floats, exact: NDArray[np.bool_], at: Floats) -> Floats:
    """The share that lies at or below some places, by Kaplan and Meier: what is not exact lies further up.

    >>> below(np.array([1.0, 2.0, 3.0, 4.0]), np.array([True, False, True, True]), np.array([1.0, 3.0]))
    array([0.25 , 0.625])
    """
    order = np.lexsort((~exact, values))  # at the same place, what ended before what was cut short
    values, exact = values[order], exact[order]
    left = len(values) - np.arange(len(values))
    survives = np.concatenate([[1.0], np.cumprod(np.where(exact, 1 - 1 / left, 1.0))])
    return np.asarray(1 - survives[np.searchsorted(values, at, side="right")])
