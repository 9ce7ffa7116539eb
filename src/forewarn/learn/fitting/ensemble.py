"""Several families as one model: the weighted mean of their log odds."""

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
    """What a search found for one family: all that is needed to fit it again, on other rows."""

    family: str
    params: Params
    features: tuple[str, ...]
    rounds: int

    def fit(self, sample: Sample, *, seed: int, threads: int) -> FittedModel:
        """The model of these rows."""
        params = {**self.params, "rounds": self.rounds}
        return family(self.family).fit(sample.columns(self.features), params, seed=seed, threads=threads)

    def to_json(self) -> dict[str, Any]:
        """For the bundle, so that a retraining can follow it."""
        return {
            "family": self.family,
            "params": dict(self.params),
            "features": list(self.features),
            "rounds": self.rounds,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Recipe:
        """From the bundle."""
        return cls(value["family"], value["params"], tuple(value["features"]), value["rounds"])


@dataclass(frozen=True, slots=True)
class EnsembleMember:
    """A model, how much it counts (all weights add up to 1), and how it was made."""

    weight: float
    recipe: Recipe
    model: FittedModel


@dataclass(frozen=True, slots=True)
class Ensemble:
    """The members' weighted mean. One member with weight 1 is a plain model."""

    members: tuple[EnsembleMember, ...]

    def margins(self, matrix: Matrix) -> NDArray[np.float64]:
        """Log odds of failure."""
        return np.asarray(
            sum(m.weight * m.model.margins(matrix.columns(m.model.names)) for m in self.members)
        )

    def contributions(self, matrix: Matrix) -> NDArray[np.float64]:
        """What each column brought to the log odds, the bias last; rows add up to the margins."""
        made = np.zeros((len(matrix.values), len(matrix.names) + 1))
        for member in self.members:
            names = member.model.names
            part = member.weight * member.model.contributions(matrix.columns(names))
            made[:, places_of(matrix.names, names)] += part[:, :-1]
            made[:, -1] += part[:, -1]
        return made

    def importance(self) -> dict[str, float]:
        """How much each column was used, by gain, the largest first."""
        found: dict[str, float] = {}
        for member in self.members:
            for name, share in zip(member.model.names, member.model.importance(), strict=True):
                found[name] = found.get(name, 0.0) + member.weight * float(share)
        return dict(sorted(found.items(), key=lambda pair: (-pair[1], pair[0])))


def fit_ensemble(
    recipes: Sequence[tuple[float, Recipe]], sample: Sample, *, seed: int, threads: int
) -> Ensemble:
    """Fit every recipe that counts on the same rows."""
    return Ensemble(
        tuple(
            EnsembleMember(weight, recipe, recipe.fit(sample, seed=seed, threads=threads))
            for weight, recipe in recipes
            if weight > 0
        )
    )


def shares(trees: int, *, online: bool) -> list[float]:
    """How much each of some tree families counts, and last, where it takes part, the online regression.

    The trees are near copies of each other and share alike. The online regression is another kind: it goes on
    learning, and has a third. Nobody is dropped: the block that would decide holds few decisions (effective
    bulks: 76 and 15 in two blocks of one modern log), and there a choice by it threw away all but the one
    member that failed on later jobs.

    >>> [round(share, 2) for share in shares(2, online=True)]
    [0.33, 0.33, 0.33]
    """
    of_online = (ONLINE_SHARE if trees else 1.0) * online
    return [(1 - of_online) / max(trees, 1)] * trees + [of_online] * online
