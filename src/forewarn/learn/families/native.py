"""What families around a native library share: checks, when boosting ends, and files that are whole."""

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
EVERY = 10  # rounds after which `on_round` is told
Values = NDArray[np.float32]
_UNREADABLE: tuple[type[Exception], ...] = (OSError, ValueError, KeyError, TypeError, LibraryError)


class NativeTrees(Protocol):
    """A fitted model that only answers: no call changes it, and any number of threads may ask at once."""

    features: int

    def margins(self, values: Values) -> NDArray[np.floating[Any]]:
        """Sum the leaves of rows."""

    def contributions(self, values: Values) -> NDArray[np.floating[Any]]:
        """Compute what each column brought to a row's margin, the bias last."""

    def gains(self) -> NDArray[np.float64]:
        """Sum what the splits at each column gained."""

    def save(self, path: Path) -> None:
        """Write the native file."""


class NativeModel(FittedModel):
    """Trees with the columns they know."""

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
        """Compute log odds of failure. No library is asked about no rows: some crash."""
        values = self.values(matrix)
        if not len(values):
            return np.empty(0)
        return self.trees.margins(values).astype(np.float64, copy=False)

    def contributions(self, matrix: Matrix) -> NDArray[np.float64]:
        """Compute what each column brought to them."""
        values = self.values(matrix)
        if not len(values):
            return np.empty((0, len(self.names) + 1))
        return self.trees.contributions(values).astype(np.float64, copy=False)

    def importance(self) -> NDArray[np.float64]:
        """Share out the total gain."""
        return shares(self.trees.gains())

    def save(self, folder: Path) -> None:
        """Write the native file, and beside it what the library does not keep and how to know it is whole."""
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
    """A family whose library fits in rounds. Its models answer without the library's Python package."""

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
        watch: EarlyStopping,
    ) -> tuple[bytes, int]:
        """Fit, and return the native file and its rounds; with `validation`, `watch` is asked every round."""

    @abstractmethod
    def trees(self, data: bytes, categorical: Collection[int], threads: int) -> NativeTrees:
        """Read a native file; `categorical` are places of columns. Raises `LibraryError` for what is none."""

    @abstractmethod
    def refusals(self) -> tuple[type[Exception], ...]:
        """Name what the library raises for what it refuses."""

    def check_library(self) -> None:
        """As the contract says."""
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
        """As the contract says."""
        if len(np.unique(train.fails)) < 2:
            raise NotEnoughError(
                f"all {len(train)} rows have the same outcome: nothing can be learnt; take a longer history"
            )
        if validation is not None and validation.matrix.names != train.matrix.names:
            raise LearningError("the validation rows do not have the columns of the train rows")
        self.check_library()
        params = {**self.defaults, **params}
        watch = EarlyStopping(patience(params.get("learning_rate", params.get("eta"))), on_round)
        try:
            data, rounds = self.boost(train, params, seed, threads, validation, watch)
        except self.refusals() as error:
            raise LearningError(f"{self.name} cannot fit with {dict(params)}: {_said(error)}") from error
        return self._model(data, train.matrix.names, train.matrix.categorical, rounds, threads)

    def load(self, folder: Path) -> FittedModel:
        """As the contract says. Only a whole file reaches the library's reader, which may crash on others."""
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
            raise BundleError(f"{folder} is no model of {self.name}: {_said(error)}") from error

    def _model(
        self, data: bytes, names: tuple[str, ...], categorical: frozenset[str], rounds: int, threads: int = 1
    ) -> FittedModel:
        trees = self.trees(data, places(names, categorical), threads)
        if trees.features != len(names):
            raise ValueError(f"{trees.features} columns in {self.file}, {len(names)} named")
        return self.model(self.name, self.file, trees, names, categorical, rounds, threads)


@dataclass
class EarlyStopping:
    """Says when boosting ends, and remembers the best round."""

    patience: int  # rounds without a better one
    on_round: OnRound | None
    best: int = field(default=1, init=False)
    least: float = field(default=np.inf, init=False)

    def stops(self, rounds: int, loss: float) -> bool:
        """To be asked after every round with the loss on the validation rows."""
        if loss < self.least:
            self.best, self.least = rounds, loss
        told = self.on_round is not None and rounds % EVERY == 0 and self.on_round(rounds, loss)
        return told or rounds - self.best >= self.patience


def patience(rate: float | None) -> int:
    """Rounds to wait for a better one: slow learners need longer. A forest has no rate, and is never ended.

    >>> patience(0.03), patience(0.3), patience(0.001)
    (40, 20, 200)
    """
    return sys.maxsize if rate is None else int(np.clip(round(1.2 / rate), 20, 200))


def leaf_size(asked: float, rows: int, part: int) -> float:
    """What a leaf must hold, but no more than so many of its parts of all rows: few rows need smaller ones.

    >>> leaf_size(300, 45_000, 50), leaf_size(300, 1_000, 50)
    (300, 20.0)
    """
    return min(asked, rows / part)


def shares(gains: Any) -> NDArray[np.float64]:
    """Gains as shares of their sum."""
    parts: NDArray[np.float64] = np.asarray(gains, np.float64)
    return parts / (parts.sum() or 1)


def places(names: tuple[str, ...], categorical: frozenset[str]) -> list[int]:
    """Where the categorical columns are."""
    return [place for place, name in enumerate(names) if name in categorical]


def digest(data: bytes) -> str:
    """Hash a file: one that was changed or cut short is told before a library's reader meets it."""
    return hashlib.blake2b(data, digest_size=32).hexdigest()


def _said(error: Exception) -> str:
    """What a library said, without its stack trace."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
