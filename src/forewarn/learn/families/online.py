"""The online regression of the features, as a model of its own.

It learns while features are computed, from every outcome as it becomes known. So it needs no training run,
serves the first days of a new cluster, and is the baseline that the trees must beat.
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
    """A model that returns its column of log odds, and 0 where that is missing."""

    rounds = 0

    def __init__(self, names: tuple[str, ...], categorical: frozenset[str]) -> None:
        self.names, self.categorical = names, categorical
        self._place = names.index(COLUMN)

    def margins(self, matrix: Matrix) -> NDArray[np.float64]:
        """Return the column of log odds."""
        return or_zero(self.values(matrix)[:, self._place]).astype(np.float64)

    def contributions(self, matrix: Matrix) -> NDArray[np.float64]:
        """Attribute the whole margin to the column of log odds."""
        contributions = np.zeros((len(matrix.values), len(self.names) + 1))
        contributions[:, self._place] = self.margins(matrix)
        return contributions

    def importance(self) -> NDArray[np.float64]:
        """Give the column of log odds the whole share."""
        importance = np.zeros(len(self.names))
        importance[self._place] = 1
        return importance

    def save(self, folder: Path) -> None:
        """Write the names of the columns as JSON."""
        facts = {"family": COLUMN, "names": self.names, "categorical": sorted(self.categorical)}
        (folder / FILE).write_text(json.dumps(facts, indent=1) + "\n")


class OnlineFamily(ModelFamily):
    """The online regression; there is nothing to fit and nothing to search."""

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
        """Store the names of the columns; the regression was fitted when the features were computed."""
        if COLUMN not in train.matrix.names:
            raise LearningError(
                f"the family `online` needs the column `{COLUMN}`, which this feature set does not have: "
                "choose another family, or a feature set with history"
            )
        return OnlineModel(train.matrix.names, train.matrix.categorical)

    def load(self, folder: Path) -> FittedModel:
        """Read the JSON that `save` wrote."""
        try:
            facts = json.loads((folder / FILE).read_text())
            if facts["family"] != self.name:
                raise BundleError(f"{folder} holds a model of {facts['family']}, not of {self.name}")
            return OnlineModel(tuple(facts["names"]), frozenset(facts["categorical"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BundleError(f"{folder} is no model of {self.name}: {error}") from error


FAMILY = OnlineFamily()
