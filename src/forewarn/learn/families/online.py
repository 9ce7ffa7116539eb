"""The online regression of the features, as a model of its own.

It has learnt while the features were made, from every outcome as it became known: it needs no training run,
serves a new cluster's first days, and is what the trees must beat.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from forewarn.errors import BundleError, LearningError
from forewarn.learn.data.matrix import Matrix, Sample, or_zero
from forewarn.learn.families.base import FittedModel, ModelFamily, OnRound, Params, Range

COLUMN = "online"  # holds log odds
FILE = "online.json"


class OnlineModel(FittedModel):
    """Says what the column says; nothing (log odds 0) where that is missing."""

    rounds = 0

    def __init__(self, names: tuple[str, ...], categorical: frozenset[str]) -> None:
        self.names, self.categorical = names, categorical
        self._place = names.index(COLUMN)

    def margins(self, matrix: Matrix) -> NDArray[np.float64]:
        """As the contract says."""
        return or_zero(self.values(matrix)[:, self._place]).astype(np.float64)

    def contributions(self, matrix: Matrix) -> NDArray[np.float64]:
        """All of it from the one column."""
        made = np.zeros((len(matrix.values), len(self.names) + 1))
        made[:, self._place] = self.margins(matrix)
        return made

    def importance(self) -> NDArray[np.float64]:
        """All of it the one column's."""
        made = np.zeros(len(self.names))
        made[self._place] = 1
        return made

    def save(self, folder: Path) -> None:
        """As JSON."""
        facts = {"family": COLUMN, "names": self.names, "categorical": sorted(self.categorical)}
        (folder / FILE).write_text(json.dumps(facts, indent=1) + "\n")


class OnlineFamily(ModelFamily):
    """Nothing to fit, nothing to search."""

    name: ClassVar[str] = "online"
    defaults: ClassVar[Params] = {}
    space: ClassVar[Mapping[str, Range]] = {}

    def fit(
        self,
        train: Sample,
        params: Params,  # noqa: ARG002
        *,
        seed: int,  # noqa: ARG002
        threads: int,  # noqa: ARG002
        validation: Sample | None = None,  # noqa: ARG002
        on_round: OnRound | None = None,  # noqa: ARG002
    ) -> FittedModel:
        """Remember the columns."""
        if COLUMN not in train.matrix.names:
            raise LearningError(
                f"the family `online` needs the column `{COLUMN}`, which these features leave out: "
                "choose another family, or a feature set with history"
            )
        return OnlineModel(train.matrix.names, train.matrix.categorical)

    def load(self, folder: Path) -> FittedModel:
        """As the contract says."""
        try:
            facts = json.loads((folder / FILE).read_text())
            if facts["family"] != self.name:
                raise BundleError(f"{folder} holds a model of {facts['family']}, not of {self.name}")
            return OnlineModel(tuple(facts["names"]), frozenset(facts["categorical"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BundleError(f"{folder} is no model of {self.name}: {error}") from error


FAMILY = OnlineFamily()
