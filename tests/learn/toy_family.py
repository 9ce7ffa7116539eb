"""Families for tests of the search: quick ones without a library, and some that fail."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from forewarn.learn.data.matrix import Matrix, Sample
from forewarn.learn.families.base import (
    Categories,
    FittedModel,
    FloatRange,
    IntRange,
    ModelFamily,
    OnRound,
    Params,
    Range,
    probabilities,
)


class ToyModel(FittedModel):
    def __init__(self, weights: NDArray[np.float64], rounds: int, names: tuple[str, ...]) -> None:
        self.weights, self.rounds, self.names, self.categorical = weights, rounds, names, frozenset()

    def margins(self, matrix: Matrix) -> NDArray[np.float64]:
        return _with_bias(matrix) @ self.weights

    def contributions(self, matrix: Matrix) -> NDArray[np.float64]:
        raise NotImplementedError

    def importance(self) -> NDArray[np.float64]:
        raise NotImplementedError

    def save(self, folder: Path) -> None:
        raise NotImplementedError


class Toy(ModelFamily):
    """Logistic regression by gradient descent: boosting in small, with rounds and a learning rate."""

    name = "toy"
    defaults: ClassVar[Params] = {"learning_rate": 0.5, "rounds": 60, "shrink": 0.0}
    space: ClassVar[Mapping[str, Range]] = {
        "learning_rate": FloatRange(0.05, 1.0, log=True),
        "rounds": IntRange(20, 80),
        "shrink": Categories((0.0, 0.01, 0.1)),
    }

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
        assert validation is not None
        assert on_round is not None
        params = {**self.defaults, **params}
        rows, held = _with_bias(train.matrix), _with_bias(validation.matrix)
        weights = np.zeros(rows.shape[1])
        rounds = 0
        for rounds in range(1, params["rounds"] + 1):
            slope = rows.T @ (probabilities(rows @ weights) - train.fails) / len(train)
            weights = (1 - params["shrink"]) * weights - params["learning_rate"] * slope
            p = np.clip(probabilities(held @ weights), 1e-9, 1 - 1e-9)
            loss = -np.log(np.where(validation.fails > 0, p, 1 - p)).mean()
            if on_round(rounds, float(loss)):
                break
        return ToyModel(weights, rounds, train.matrix.names)

    def load(self, folder: Path) -> FittedModel:
        raise NotImplementedError


class Slow(Toy):
    """A family that takes some time, as a real one does, and counts its fits in a file."""

    name = "slow"
    fits: Path

    def fit(self, *args: object, **kwargs: object) -> FittedModel:
        with self.fits.open("a") as fits:
            fits.write("fit\n")
        time.sleep(0.3)
        return super().fit(*args, **kwargs)  # type: ignore[arg-type]


class Broken(Toy):
    name = "broken"

    def fit(self, *args: object, **kwargs: object) -> FittedModel:
        raise ValueError("this family fits nothing")


class Deadly(Toy):
    """A family that kills its own process, as the system does when memory runs out."""

    name = "deadly"

    def fit(self, *args: object, **kwargs: object) -> FittedModel:
        os._exit(9)


TOYS: dict[str, Toy] = {one.name: one for one in (Toy(), Slow(), Broken(), Deadly())}


def _with_bias(matrix: Matrix) -> NDArray[np.float64]:
    return np.column_stack([np.nan_to_num(matrix.values.astype(np.float64)), np.ones(len(matrix.values))])
