"""A simple rule as a model: the next job ends as the last one did, with the observed probability.

It serves where no model beats it, so that predictions are never worse than the rule. Each column holds how an
earlier job ended (1 failed, 0 ended well, missing: there was none); the first column that has a value
decides.
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
PRIOR = 2.0  # rows with the overall failure rate that are added to the count of every answer
APART = 1e-3  # smallest difference in log odds between the jobs that the rule warns of and the others


class RuleModel(FittedModel):
    """Log odds for each answer of the rule."""

    rounds = 0

    def __init__(
        self, names: tuple[str, ...], log_odds: tuple[float, float, float], bias: float, most_fail: bool
    ) -> None:
        self.names, self.categorical = names, frozenset()
        self.log_odds, self.bias, self.most_fail = log_odds, bias, most_fail

    @property
    def warns_from(self) -> float:
        """The log odds halfway between the jobs that the rule warns of and the others.

        The rule warns if the last job failed, and, where most jobs fail, also if there is no last job.
        Halfway, because calibration and rounding move both a little.
        """
        well, failed, none = self.log_odds
        warned, others = ((failed, none), (well,)) if self.most_fail else ((failed,), (well, none))
        return (min(warned) + max(others)) / 2

    def margins(self, matrix: Matrix) -> NDArray[np.float64]:
        """Look up the log odds of the rule's answer for each row."""
        return np.array(self.log_odds)[_answers(self.values(matrix))[0]]

    def contributions(self, matrix: Matrix) -> NDArray[np.float64]:
        """Attribute a margin to the column that decided, or to the first if none had a value."""
        values = self.values(matrix)
        answers, by = _answers(values)
        contributions = np.zeros((len(values), len(self.names) + 1))
        contributions[:, -1] = self.bias
        contributions[np.arange(len(values)), by] = np.array(self.log_odds)[answers] - self.bias
        return contributions

    def importance(self) -> NDArray[np.float64]:
        """Give each column the same share."""
        return np.full(len(self.names), 1 / len(self.names))

    def save(self, folder: Path) -> None:
        """Write the rule as JSON."""
        odds = dict(zip(ANSWERS, self.log_odds, strict=True))
        facts = {"family": RuleFamily.name, "names": self.names, "log_odds": odds, "bias": self.bias}
        facts["most_fail"] = self.most_fail
        (folder / FILE).write_text(json.dumps(facts, indent=1) + "\n")


class RuleFamily(ModelFamily):
    """The simple rules; a fit counts how often the jobs with each answer failed."""

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
                f"a rule needs columns that hold how a last job ended (1, 0 or missing), not "
                f"{', '.join(train.matrix.names) or 'none'}"
            )
        answers = _answers(values)[0]
        rate = float(np.average(train.fails, weights=train.weights))
        if rate in (0, 1):
            raise NotEnoughError(
                "all jobs to learn a rule from have the same outcome: a rule needs both outcomes"
            )
        failed = np.bincount(answers, train.weights * train.fails, 3) + PRIOR * rate
        well = np.bincount(answers, train.weights * (1 - train.fails), 3) + PRIOR * (1 - rate)
        odds, bias = np.log(failed / well), float(np.log(rate / (1 - rate)))
        # The order of the answers stays that of the rule, whatever the counts: it warns if the last job
        # failed and, only where most jobs fail, if there is none.
        most_fail = bool(train.fails.mean() > 0.5)
        if most_fail:
            odds[NONE] = max(odds[NONE], odds[WELL] + APART)
            odds[FAILED] = max(odds[FAILED], odds[WELL] + APART)
        else:
            odds[FAILED] = max(odds[FAILED], odds[WELL] + APART, odds[NONE] + APART)
        well_odds, failed_odds, none_odds = map(float, odds)
        return RuleModel(train.matrix.names, (well_odds, failed_odds, none_odds), bias, most_fail)

    def load(self, folder: Path) -> FittedModel:
        """Read the JSON that `save` wrote."""
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
    """Return the rule's answer for each row, and the place of the column that gave it."""
    present = ~np.isnan(values)
    by = np.argmax(present, axis=1)
    failed = np.nan_to_num(values[np.arange(len(values)), by]) > 0.5
    return np.where(present.any(axis=1), failed.astype(np.intp), NONE), by


FAMILY = RuleFamily()
