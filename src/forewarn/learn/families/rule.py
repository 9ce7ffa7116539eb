"""A simple rule as a model: the next job ends as the last one did, with the probability that this has.

It serves where a model does not beat it, so that nobody is told less than the rule would. Its columns hold
how the last job of somebody ended (1 failed, 0 did not, missing: none has); the first that has an answer
gives it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from forewarn.errors import BundleError, LearningError, NotEnoughError
from forewarn.learn.data.matrix import Matrix, Sample
from forewarn.learn.families.base import FittedModel, ModelFamily, OnRound, Params, Range

FILE = "rule.json"
ANSWERS = ("ended well", "failed", "none")
WELL, FAILED, NONE = range(3)
PRIOR = 2.0  # rows that every answer is taken to have seen, failing as all do
APART = 1e-3  # log odds by which those that the rule warns of lie above the others, at least


class RuleModel(FittedModel):
    """Log odds by what the rule answers."""

    rounds = 0

    def __init__(
        self, names: tuple[str, ...], log_odds: tuple[float, float, float], bias: float, most_fail: bool
    ) -> None:
        self.names, self.categorical = names, frozenset()
        self.log_odds, self.bias, self.most_fail = log_odds, bias, most_fail

    @property
    def warns_from(self) -> float:
        """Log odds between those that the rule warns of and the others.

        It warns of what failed last, and of what has no last job where most jobs fail. In the middle, since
        calibration and rounding move both a little.
        """
        well, failed, none = self.log_odds
        warned, others = ((failed, none), (well,)) if self.most_fail else ((failed,), (well, none))
        return (min(warned) + max(others)) / 2

    def margins(self, matrix: Matrix) -> NDArray[np.float64]:
        """As the contract says."""
        return np.array(self.log_odds)[_answers(self.values(matrix))[0]]

    def contributions(self, matrix: Matrix) -> NDArray[np.float64]:
        """All of it from the column that answered, or from the first where none did."""
        values = self.values(matrix)
        answers, by = _answers(values)
        made = np.zeros((len(values), len(self.names) + 1))
        made[:, -1] = self.bias
        made[np.arange(len(values)), by] = np.array(self.log_odds)[answers] - self.bias
        return made

    def importance(self) -> NDArray[np.float64]:
        """The same for each column that is asked."""
        return np.full(len(self.names), 1 / len(self.names))

    def save(self, folder: Path) -> None:
        """As JSON."""
        odds = dict(zip(ANSWERS, self.log_odds, strict=True))
        facts = {"family": RuleFamily.name, "names": self.names, "log_odds": odds, "bias": self.bias}
        facts["most_fail"] = self.most_fail
        (folder / FILE).write_text(json.dumps(facts, indent=1) + "\n")


class RuleFamily(ModelFamily):
    """Nothing to search; what is fitted is how often each answer comes true."""

    name: ClassVar[str] = "rule"
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
        """Count, for each answer, how many jobs failed."""
        values = train.matrix.values
        if not values.shape[1] or not np.isin(values[~np.isnan(values)], (0, 1)).all():
            raise LearningError(
                f"a rule needs columns that say how a last job ended (1, 0 or missing), not "
                f"{', '.join(train.matrix.names) or 'none'}"
            )
        answers = _answers(values)[0]
        rate = float(np.average(train.fails, weights=train.weights))
        if rate in (0, 1):
            raise NotEnoughError(
                "all jobs to learn a rule from ended the same: there is nothing to tell apart"
            )
        failed = np.bincount(answers, train.weights * train.fails, 3) + PRIOR * rate
        well = np.bincount(answers, train.weights * (1 - train.fails), 3) + PRIOR * (1 - rate)
        odds, bias = np.log(failed / well), float(np.log(rate / (1 - rate)))
        # A rule warns of what failed last, and, unless most jobs fail, of nothing else: its order is kept.
        most_fail = bool(train.fails.mean() > 0.5)
        if most_fail:
            odds[NONE] = max(odds[NONE], odds[WELL] + APART)
            odds[FAILED] = max(odds[FAILED], odds[WELL] + APART)
        else:
            odds[FAILED] = max(odds[FAILED], odds[WELL] + APART, odds[NONE] + APART)
        well_odds, failed_odds, none_odds = map(float, odds)
        return RuleModel(train.matrix.names, (well_odds, failed_odds, none_odds), bias, most_fail)

    def load(self, folder: Path) -> FittedModel:
        """As the contract says."""
        try:
            facts = json.loads((folder / FILE).read_text())
            if facts["family"] != self.name:
                raise BundleError(f"{folder} holds a model of {facts['family']}, not of {self.name}")
            well, failed, none = (float(facts["log_odds"][answer]) for answer in ANSWERS)
            bias, most_fail = float(facts["bias"]), bool(facts["most_fail"])
            return RuleModel(tuple(facts["names"]), (well, failed, none), bias, most_fail)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BundleError(f"{folder} is no model of {self.name}: {error}") from error


def _answers(values: NDArray[np.float32]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """What the rule answers for each row, and which column gave it."""
    there = ~np.isnan(values)
    by = np.argmax(there, axis=1)
    said = np.nan_to_num(values[np.arange(len(values)), by]) > 0.5
    return np.where(there.any(axis=1), said.astype(np.intp), NONE), by


FAMILY = RuleFamily()
