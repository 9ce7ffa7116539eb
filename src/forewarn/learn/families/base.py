"""The contract of a model family, and the small language of its search space.

A family fits, and loads what it saved. A model tells log odds and what each column brought to them, and
saves itself as the library's own native files: nothing is ever pickled. The same suite of tests
(`tests/learn/families_contract.py`) holds every family to it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from forewarn.errors import LearningError
from forewarn.learn.data.matrix import Matrix, Sample

Params = Mapping[str, Any]
# Told after some rounds: how many there are, and the loss on the validation rows. True: stop here.
OnRound = Callable[[int, float], bool]


@dataclass(frozen=True, slots=True)
class FloatRange:
    """A number between two bounds; with `log`, small ones as often as large ones."""

    low: float
    high: float
    log: bool = False


@dataclass(frozen=True, slots=True)
class IntRange:
    """A whole number between two bounds, both included."""

    low: int
    high: int
    log: bool = False


@dataclass(frozen=True, slots=True)
class Categories:
    """One of some values."""

    values: tuple[Any, ...]


_LARGE = 1e30  # the largest 32-bit float would overflow where a library adds to it

Range = FloatRange | IntRange | Categories


class FittedModel(ABC):
    """What was fitted. Rows given to it have the columns that it was fitted on, in their order.

    No call changes a model: any number of threads may ask one at once.
    """

    names: tuple[str, ...]
    categorical: frozenset[str]
    rounds: int  # of boosting, or trees of a forest; what a refit needs to know
    threads: int = 1  # that many rows at once may take; a few rows take one

    def values(self, matrix: Matrix) -> NDArray[np.float32]:
        """The rows, if they have the model's columns in its order; nothing in them is infinite."""
        if matrix.names != self.names:
            missing = [name for name in self.names if name not in matrix.names]
            other = [name for name in matrix.names if name not in self.names]
            raise LearningError(
                f"the model was fitted on {len(self.names)} columns and is given {len(matrix.names)} others: "
                f"missing {missing}, unknown {other}, or in another order; "
                "take them by `matrix.columns(model.names)`"
            )
        return finite(matrix.values)

    @abstractmethod
    def margins(self, matrix: Matrix) -> NDArray[np.float64]:
        """Log odds of failure, one for each row."""

    @abstractmethod
    def contributions(self, matrix: Matrix) -> NDArray[np.float64]:
        """What each column brought to a row's log odds (exact TreeSHAP), the last column being the bias.

        A row's contributions add up to its margin.
        """

    @abstractmethod
    def importance(self) -> NDArray[np.float64]:
        """How much each column was used, by gain; the shares add up to 1 (all 0 if no split was worth it)."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write the native files into a folder that exists and is empty."""


class ModelFamily(ABC):
    """How models of one kind are made."""

    name: ClassVar[str]
    defaults: ClassVar[Params]  # a sound setting without any search
    space: ClassVar[Mapping[str, Range]]  # what a search may change

    @abstractmethod
    def fit(
        self,
        train: Sample,
        params: Params,
        *,
        seed: int,
        threads: int,
        validation: Sample | None = None,
        on_round: OnRound | None = None,
    ) -> FittedModel:
        """Fit on the sample; what `params` leaves out is as in `defaults`.

        With `validation`, boosting ends when its log loss has not fallen for a while, and the model keeps the
        best round (a forest, which more trees do not harm, keeps all); without, it runs for
        ``params["rounds"]``, and `on_round` is not called. Equal arguments give equal models. Raises
        `NotEnoughError` if all rows have one outcome, `LearningError` if the library refuses.
        """

    def check_library(self) -> None:  # noqa: B027  # most families need none
        """Raise `MissingExtraError` if what fits models is not installed."""

    @abstractmethod
    def load(self, folder: Path) -> FittedModel:
        """What `FittedModel.save` wrote there. Raises `BundleError` for files that are not the family's."""


def finite(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Infinite values as very large ones, which sort the same: some libraries refuse infinity.

    >>> finite(np.array([[np.inf, 2, np.nan]], np.float32)).tolist()
    [[1.0000000150474662e+30, 2.0, nan]]
    """
    values = np.ascontiguousarray(values, np.float32)
    if np.isinf(values).any():
        return np.nan_to_num(values, nan=np.nan, posinf=_LARGE, neginf=-_LARGE)
    return values


def probabilities(margins: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log odds as probabilities.

    >>> probabilities(np.array([0.0])).tolist()
    [0.5]
    """
    return 1 / (1 + np.exp(-np.clip(margins, -500, 500)))


def log_odds(p: NDArray[np.float64], least: float = 1e-6) -> NDArray[np.float64]:
    """Log odds of probabilities, none of which counts as surer than `least` in either direction."""
    p = np.clip(p, least, 1 - least)
    return np.asarray(np.log(p / (1 - p)))
