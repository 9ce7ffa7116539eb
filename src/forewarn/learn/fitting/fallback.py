"""What serves where a model loses to the best simple rule: the rule itself, with calibrated probabilities.

A rule stands in at two places. While a model is made: where it is clearly better on the block `calibrate`, by
user-week bootstrap, so that the test part has no say in what is then judged on it. And at the end of a
training: where the model does not beat it on the test part, the bundle is made of the rule, labelled as such.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from forewarn.learn.data.table import JobTable
from forewarn.learn.evaluation import bootstrap
from forewarn.learn.evaluation.baselines import MAJORITY, RULES, baselines, best_baseline, within
from forewarn.learn.evaluation.metrics import Alarms
from forewarn.learn.families.rule import RuleModel
from forewarn.learn.fitting.calibration import Calibration
from forewarn.learn.fitting.ensemble import Ensemble, Recipe
from forewarn.learn.fitting.thresholds import Threshold, parsed

Recipes = tuple[tuple[float, Recipe], ...]


def rule_recipes(rule: str) -> Recipes:
    """A simple rule as the only member."""
    return ((1.0, Recipe("rule", {"rule": rule}, RULES[rule], 0)),)


def rule_of(recipes: Iterable[Recipe]) -> str | None:
    """The simple rule that stands in a model's place, if one does."""
    return next((str(recipe.params["rule"]) for recipe in recipes if recipe.family == "rule"), None)


def servable(features: Iterable[str]) -> tuple[str, ...]:
    """The rules that can stand in for a model with these columns. The majority says nothing of a job."""
    return tuple(name for name in within(features) if name != MAJORITY)


def rule_thresholds(
    thresholds: Mapping[str, Threshold], ensemble: Ensemble, calibration: Calibration
) -> dict[str, Threshold]:
    """The thresholds of a rule: those for F1 warn exactly where the rule does."""
    model = ensemble.members[0].model
    assert isinstance(model, RuleModel)
    value = float(calibration(np.array([model.warns_from]))[0])
    followed = Threshold("f1", value, {"why": "warns where the rule does"})
    return {
        rule: replace(followed, rule=rule) if parsed(rule)[0] in ("f1", "expected-f1") else found
        for rule, found in thresholds.items()
    }


def beaten_by(
    table: JobTable,
    rows: NDArray[np.int64],
    alarms: Alarms,
    learnt: NDArray[np.int64],
    features: Iterable[str],
    *,
    seed: int,
) -> str | None:
    """The best simple rule, where it is clearly better than a model's alarms for some jobs.

    Clearly: the interval of the model's lead in F1 lies below 0.
    """
    rules, names = baselines(table, rows, learnt), servable(features)
    if not names:
        return None
    fails = table.fails[rows]
    best = best_baseline(rules, fails, names)
    groups = bootstrap.groups(table.about[rows])
    bounds = bootstrap.difference(groups, fails, alarms, rules[best], seed=seed)["interval"]
    return best if bounds is not None and bounds[1] < 0 else None
