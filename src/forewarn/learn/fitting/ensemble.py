"""An ensemble: several model families as one model, the weighted mean of their log odds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarn.learn.data.matrix import Matrix, Sample, places_of
from forewarn.learn.families import family
from forewarn.learn.families.base import FittedModel, Params

ONLINE_SHARE = 1 / 3


@dataclass(frozen=True, slots=True)
class Recipe:
    """The result of a search for one family: all that is needed to fit it again on other rows."""

    family: str
    params: Params
    features: tuple[str, ...]
    rounds: int

    def fit(self, sample: Sample, *, seed: int, threads: int) -> FittedModel:
        """Fit the model on these rows."""
        params = {**self.params, "rounds": self.rounds}
        return family(self.family).fit(sample.columns(self.features), params, seed=seed, threads=threads)

    def to_json(self) -> dict[str, Any]:
        """Return what the bundle stores, so that a retraining can repeat the recipe."""
        return {
            "family": self.family,
            "params": dict(self.params),
            "features": list(self.features),
            "rounds": self.rounds,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Recipe:
        """Read what the bundle stores."""
        return cls(value["family"], value["params"], tuple(value["features"]), value["rounds"])


@dataclass(frozen=True, slots=True)
class EnsembleMember:
    """A model with its weight (all weights add up to 1) and its recipe."""

    weight: float
    recipe: Recipe
    model: FittedModel


@dataclass(frozen=True, slots=True)
class Ensemble:
    """A weighted mean of models. One member with weight 1 is a plain model."""

    members: tuple[EnsembleMember, ...]

    def margins(self, matrix: Matrix) -> NDArray[np.float64]:
        """Compute log odds of failure."""
        return np.asarray(
            sum(m.weight * m.model.margins(matrix.columns(m.model.names)) for m in self.members)
        )

    def contributions(self, matrix: Matrix) -> NDArray[np.float64]:
        """Compute each column's contribution to the log odds, the bias last; rows add up to the margins."""
        total = np.zeros((len(matrix.values), len(matrix.names) + 1))
        for member in self.members:
            names = member.model.names
            part = member.weight * member.model.contributions(matrix.columns(names))
            total[:, places_of(matrix.names, names)] += part[:, :-1]
            total[:, -1] += part[:, -1]
        return total

    def importance(self) -> dict[str, float]:
        """Compute each column's importance by gain, the largest first."""
        total: dict[str, float] = {}
        for member in self.members:
            for name, share in zip(member.model.names, member.model.importance(), strict=True):
                total[name] = total.get(name, 0.0) + member.weight * float(share)
        return dict(sorted(total.items(), key=lambda pair: (-pair[1], pair[0])))


def fit_ensemble(
    recipes: Sequence[tuple[float, Recipe]], sample: Sample, *, seed: int, threads: int
) -> Ensemble:
    """Fit every recipe with a positive weight on the same rows."""
    return Ensemble(
        tuple(
            EnsembleMember(weight, recipe, recipe.fit(sample, seed=seed, threads=threads))
            for weight, recipe in recipes
            if weight > 0
        )
    )


def member_weights(trees: int, *, online: bool) -> list[float]:
    """Return the weight of each tree family and, last, where it takes part, of the online regression.

    The tree families are near copies of each other and have equal weights. The online regression differs from
    them, since it continues to learn, and has a third. No member is dropped: the block that would decide this
    holds few decisions (effective bulks: 76 and 15 in two blocks of one modern log), and a choice by it
    dropped all but the one member that failed on later jobs.

    >>> [round(weight, 2) for weight in member_weights(2, online=True)]
    [0.33, 0.33, 0.33]
    """
    online_weight = (ONLINE_SHARE if trees else 1.0) * online
    return [(1 - online_weight) / max(trees, 1)] * trees + [online_weight] * online
