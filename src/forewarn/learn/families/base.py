"""The contract of a model family: what it fits, what it promises, and which parameters a search may change.

A `ModelFamily` fits models and loads saved ones. A `FittedModel` computes log odds of failure and the
contribution of each column to them, and saves itself as native files of its library: nothing is ever pickled.
`tests/learn/families_contract.py` is this contract as tests; every family inherits them.

Who calls it, and when:

- `learn.search` fits one model a trial, in a process of its own, with `validation` and `on_round`.
- `learn.fitting` fits the chosen recipes, and fits them again on all rows for a known number of rounds.
- `learn.registry` saves and loads the models of a bundle.
- `assess` calls `margins` and `contributions` of loaded models, often for one row, from several threads.

What every family must keep:

- Missing values (NaN), unknown categories and infinite values are ordinary input and need no imputation.
- Equal arguments give equal models; a loaded model gives the same numbers as the saved one, to the last bit.
- With ``threads=1`` no other thread works; nothing is printed, and no file is written except by `save`.
- Answering does not import the Python package of the library, which takes most of a second.

What it raises: `NotEnoughError` for rows of one outcome, `LearningError` for parameters or columns that do
not fit, `MissingExtraError` for a library that is not installed, `BundleError` for files that cannot be read.
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
# Called during a fit with the number of rounds so far and the log loss on the validation rows. Returns
# whether to stop the fit.
OnRound = Callable[[int, float], bool]


@dataclass(frozen=True, slots=True)
class FloatRange:
    """A number between two bounds; with `log`, drawn on a logarithmic scale."""

    low: float
    high: float
    log: bool = False


@dataclass(frozen=True, slots=True)
class IntRange:
    """A whole number between two bounds, both included; with `log`, drawn on a logarithmic scale."""

    low: int
    high: int
    log: bool = False


@dataclass(frozen=True, slots=True)
class Categories:
    """One of several values."""

    values: tuple[Any, ...]


_LARGE = 1e30  # the largest 32-bit float would overflow where a library adds to it

Range = FloatRange | IntRange | Categories


class FittedModel(ABC):
    """A fitted model, which no call changes: any number of threads may use it at the same time.

    The matrix of every call must have the columns of the training rows, in the same order.
    """

    names: tuple[str, ...]  # of the columns
    categorical: frozenset[str]  # those of them that hold codes
    rounds: int  # of boosting, or trees of a forest: a refit needs the number
    threads: int = 1  # that a call with many rows may use; a call with few rows uses one

    def values(self, matrix: Matrix) -> NDArray[np.float32]:
        """Return the values of a matrix, infinite ones as very large ones.

        Raises `LearningError` if its columns are not those of the model, in the same order.
        """
        if matrix.names != self.names:
            missing = [name for name in self.names if name not in matrix.names]
            unknown = [name for name in matrix.names if name not in self.names]
            raise LearningError(
                f"the model was fitted on {len(self.names)} columns, and the matrix has {len(matrix.names)} "
                f"others: missing {missing}, unknown {unknown}, or in another order; "
                "select them by `matrix.columns(model.names)`"
            )
        return finite(matrix.values)

    @abstractmethod
    def margins(self, matrix: Matrix) -> NDArray[np.float64]:
        """Compute the log odds of failure of each row."""

    @abstractmethod
    def contributions(self, matrix: Matrix) -> NDArray[np.float64]:
        """Compute the contribution of each column to a row's log odds (exact TreeSHAP).

        The last column of the result is the bias, so that each row adds up to its margin.
        """

    @abstractmethod
    def importance(self) -> NDArray[np.float64]:
        """Compute each column's share of the total gain of all splits: they add up to 1, or all are 0."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write the model as native files into an existing, empty folder."""


class ModelFamily(ABC):
    """A kind of model: how its models are fitted and loaded, and which parameters they have."""

    name: ClassVar[str]
    defaults: ClassVar[Params]  # a sound choice without any search
    space: ClassVar[Mapping[str, Range]]  # the parameters that a search may change

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
        """Fit a model; a parameter that is not in `params` has its value of `defaults`.

        With `validation`, the fit stops when the log loss on these rows has not improved for some rounds, or
        when `on_round`, called every few rounds, returns True; the model keeps the best round. (A forest
        keeps all trees: more do no harm.) Without `validation`, the fit takes ``params["rounds"]`` rounds,
        and `on_round` is not called.

        Raises `NotEnoughError` if all rows have the same outcome, `LearningError` if the library refuses the
        parameters or the rows, `MissingExtraError` if the library is not installed.
        """

    def check_library(self) -> None:  # noqa: B027  # a family without a library has nothing to check
        """Raise `MissingExtraError` if the library that fits models is not installed."""

    @abstractmethod
    def load(self, folder: Path) -> FittedModel:
        """Load a model that `FittedModel.save` wrote.

        Raises `BundleError`, which names the folder, if a file is missing, damaged, or another family's.
        """


def finite(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Replace infinite values by very large ones, which sort the same: some libraries refuse infinity.

    >>> finite(np.array([[np.inf, 2, np.nan]], np.float32)).tolist()
    [[1.0000000150474662e+30, 2.0, nan]]
    """
    values = np.ascontiguousarray(values, np.float32)
    if np.isinf(values).any():
        return np.nan_to_num(values, nan=np.nan, posinf=_LARGE, neginf=-_LARGE)
    return values


def probabilities(margins: NDArray[np.float64]) -> NDArray[np.float64]:
    """Convert log odds to probabilities.

    >>> probabilities(np.array([0.0])).tolist()
    [0.5]
    """
    return 1 / (1 + np.exp(-np.clip(margins, -500, 500)))


def log_odds(p: NDArray[np.float64], least: float = 1e-6) -> NDArray[np.float64]:
    """Convert probabilities to log odds, clipped to at least `least` from 0 and from 1."""
    p = np.clip(p, least, 1 - least)
    return np.asarray(np.log(p / (1 - p)))
