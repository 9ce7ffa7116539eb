"""The common part of families with a native library: checks of input, early stopping, files with a digest."""

from __future__ import annotations

import hashlib
import json
import sys
from abc import abstractmethod
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from forewarn.errors import BundleError, LearningError, NotEnoughError
from forewarn.learn.data.matrix import Matrix, Sample
from forewarn.learn.families.base import FittedModel, ModelFamily, OnRound, Params
from forewarn.learn.families.shared_library import LibraryError, import_package

FACTS = "family.json"
REPORT_EVERY = 10  # rounds between two calls of `on_round`
Floats32 = NDArray[np.float32]
_UNREADABLE: tuple[type[Exception], ...] = (OSError, ValueError, KeyError, TypeError, LibraryError)


class NativeTrees(Protocol):
    """Fitted trees, for predictions only: no call changes them, and several threads may call at once."""

    features: int  # the number of columns

    def margins(self, values: Floats32) -> NDArray[np.floating[Any]]:
        """Compute the margin of each row."""

    def contributions(self, values: Floats32) -> NDArray[np.floating[Any]]:
        """Compute the contribution of each column to a row's margin, the bias last."""

    def gains(self) -> NDArray[np.float64]:
        """Sum the gains of the splits at each column."""

    def save(self, path: Path) -> None:
        """Write the native file."""


class NativeModel(FittedModel):
    """Native trees with the names of their columns."""

    def __init__(
        self,
        family: str,
        file: str,  # the name of its native file
        trees: NativeTrees,
        names: tuple[str, ...],
        categorical: frozenset[str],
        rounds: int,
        threads: int = 1,
    ) -> None:
        self.family, self.file, self.trees = family, file, trees
        self.names, self.categorical = names, categorical
        self.rounds, self.threads = rounds, threads

    def margins(self, matrix: Matrix) -> NDArray[np.float64]:
        """Compute the log odds of failure of each row; for no rows without the library: some crash."""
        values = self.values(matrix)
        if not len(values):
            return np.empty(0)
        return self.trees.margins(values).astype(np.float64, copy=False)

    def contributions(self, matrix: Matrix) -> NDArray[np.float64]:
        """Compute the contribution of each column to a row's log odds, the bias last."""
        values = self.values(matrix)
        if not len(values):
            return np.empty((0, len(self.names) + 1))
        return self.trees.contributions(values).astype(np.float64, copy=False)

    def importance(self) -> NDArray[np.float64]:
        """Compute the share of each column in the total gain."""
        return shares(self.trees.gains())

    def save(self, folder: Path) -> None:
        """Write the native file, and a JSON file with what the library does not store and a digest."""
        self.trees.save(folder / self.file)
        facts = {
            "family": self.family,
            "rounds": self.rounds,
            "names": self.names,
            "categorical": sorted(self.categorical),
            "blake2b": digest((folder / self.file).read_bytes()),
        }
        (folder / FACTS).write_text(json.dumps(facts, indent=1) + "\n")


class NativeFamily(ModelFamily):
    """A family whose library fits in rounds; its models predict without the library's Python package."""

    model: ClassVar[type[NativeModel]] = NativeModel
    file: ClassVar[str]
    library: ClassVar[str]  # the Python package that fits

    @abstractmethod
    def boost(
        self,
        train: Sample,
        params: Params,
        seed: int,
        threads: int,
        validation: Sample | None,
        stopping: EarlyStopping,
    ) -> tuple[bytes, int]:
        """Fit a model; return its native file and its rounds.

        With `validation`, the implementation calls `stopping.should_stop` after every round.
        """

    @abstractmethod
    def read_trees(self, data: bytes, categorical: Collection[int], threads: int) -> NativeTrees:
        """Read a native file; `categorical` are the places of the categorical columns.

        Raises `LibraryError` for data that is no model of the library.
        """

    @abstractmethod
    def library_errors(self) -> tuple[type[Exception], ...]:
        """Return the exceptions by which the library refuses parameters or rows."""

    def check_library(self) -> None:
        """Raise `MissingExtraError` if the library cannot be imported."""
        import_package(self.library)

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
        """Fit a model: check the rows, complete `params` by `defaults`, translate the library's errors."""
        if len(np.unique(train.fails)) < 2:
            raise NotEnoughError(
                f"all {len(train)} rows have the same outcome: a model needs both; take a longer history"
            )
        if validation is not None and validation.matrix.names != train.matrix.names:
            raise LearningError("the validation rows do not have the columns of the train rows")
        self.check_library()
        params = {**self.defaults, **params}
        stopping = EarlyStopping(patience(params.get("learning_rate", params.get("eta"))), on_round)
        try:
            data, rounds = self.boost(train, params, seed, threads, validation, stopping)
        except self.library_errors() as error:
            raise LearningError(
                f"{self.name} cannot fit with {dict(params)}: {_first_line(error)}"
            ) from error
        return self._model(data, train.matrix.names, train.matrix.categorical, rounds, threads)

    def load(self, folder: Path) -> FittedModel:
        """Load a saved model. The digest is checked first: a library's reader may crash on a damaged file."""
        path = folder / self.file
        try:
            facts = json.loads((folder / FACTS).read_text())
            if facts["family"] != self.name:
                raise BundleError(f"{folder} holds a model of {facts['family']}, not of {self.name}")
            data = path.read_bytes()
            if facts["blake2b"] != digest(data):
                raise BundleError(f"{path} was changed or cut short: restore the bundle, or train again")
            names, categorical = tuple(facts["names"]), frozenset(facts["categorical"])
            return self._model(data, names, categorical, int(facts["rounds"]))
        except _UNREADABLE as error:
            raise BundleError(f"{folder} is no model of {self.name}: {_first_line(error)}") from error

    def _model(
        self, data: bytes, names: tuple[str, ...], categorical: frozenset[str], rounds: int, threads: int = 1
    ) -> FittedModel:
        trees = self.read_trees(data, categorical_places(names, categorical), threads)
        if trees.features != len(names):
            raise ValueError(f"{trees.features} columns in {self.file}, {len(names)} named")
        return self.model(self.name, self.file, trees, names, categorical, rounds, threads)


@dataclass
class EarlyStopping:
    """A decision after each round whether to stop boosting, and a record of the best round."""

    patience: int  # rounds without improvement after which to stop
    on_round: OnRound | None
    best: int = field(default=1, init=False)  # round
    least: float = field(default=np.inf, init=False)  # loss

    def should_stop(self, rounds: int, loss: float) -> bool:
        """Check whether to stop, after a round, given the loss on the validation rows."""
        if loss < self.least:
            self.best, self.least = rounds, loss
        if self.on_round is not None and rounds % REPORT_EVERY == 0 and self.on_round(rounds, loss):
            return True
        return rounds - self.best >= self.patience


def patience(rate: float | None) -> int:
    """Return the rounds to wait for an improvement: more for a low learning rate; forever for a forest.

    >>> patience(0.03), patience(0.3), patience(0.001)
    (40, 20, 200)
    """
    return sys.maxsize if rate is None else int(np.clip(round(1.2 / rate), 20, 200))


def leaf_size(setting: float, rows: int, most_leaves: int) -> float:
    """Return the smallest size of a leaf: the setting, or less where there are few rows.

    `most_leaves` leaves of this size always fit into the rows.

    >>> leaf_size(300, 45_000, 50), leaf_size(300, 1_000, 50)
    (300, 20.0)
    """
    return min(setting, rows / most_leaves)


def shares(gains: Any) -> NDArray[np.float64]:
    """Divide gains by their sum."""
    parts: NDArray[np.float64] = np.asarray(gains, np.float64)
    return parts / (parts.sum() or 1)


def categorical_places(names: tuple[str, ...], categorical: frozenset[str]) -> list[int]:
    """Return the places of the categorical columns."""
    return [place for place, name in enumerate(names) if name in categorical]


def digest(data: bytes) -> str:
    """Hash a native file, to detect a changed or truncated one before a library reads it."""
    return hashlib.blake2b(data, digest_size=32).hexdigest()


def _first_line(error: Exception) -> str:
    """Return the message of a library's error, without its stack trace."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
