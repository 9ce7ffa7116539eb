"""The fallback where a model loses to the best simple rule: the rule itself, with calibrated probabilities.

A rule can replace a model twice. During the fit: where it is clearly better on the block `calibrate`, by
user-week bootstrap, so that the test block does not influence what is then evaluated on it. And at the end of
a training: where the model does not beat it on the test block, the bundle holds the rule, labelled as such.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from forewarn.learn.data.table import JobTable
from forewarn.learn.evaluation import bootstrap
from forewarn.learn.evaluation.baselines import RULES, available_rules, baseline_alarms, best_rule
from forewarn.learn.evaluation.metrics import Alarms
from forewarn.learn.evaluation.rule_labels import MAJORITY
from forewarn.learn.families.rule import RuleModel
from forewarn.learn.fitting.calibration import Calibration
from forewarn.learn.fitting.ensemble import Ensemble, Recipe
from forewarn.learn.fitting.thresholds import Threshold, parse_rule

Recipes = tuple[tuple[float, Recipe], ...]


def rule_recipes(rule: str) -> Recipes:
    """Return a simple rule as the only member of an ensemble."""
    return ((1.0, Recipe("rule", {"rule": rule}, RULES[rule], 0)),)


def find_rule(recipes: Iterable[Recipe]) -> str | None:
    """Return the simple rule that serves in a model's place, if one does."""
    return next((str(recipe.params["rule"]) for recipe in recipes if recipe.family == "rule"), None)


def servable_rules(features: Iterable[str]) -> tuple[str, ...]:
    """List the rules that can replace a model with these features.

    The majority is no such rule: it does not distinguish jobs.
    """
    return tuple(name for name in available_rules(features) if name != MAJORITY)


def rule_thresholds(
    thresholds: Mapping[str, Threshold], ensemble: Ensemble, calibration: Calibration
) -> dict[str, Threshold]:
    """Return the thresholds of a rule; those for F1 warn exactly where the rule does."""
    model = ensemble.members[0].model
    assert isinstance(model, RuleModel)
    value = float(calibration(np.array([model.warns_from]))[0])
    same_as_rule = Threshold("f1", value, {"why": "warns where the rule does"})
    return {
        rule: replace(same_as_rule, rule=rule) if parse_rule(rule)[0] in ("f1", "expected-f1") else threshold
        for rule, threshold in thresholds.items()
    }


def clearly_better_rule(
    table: JobTable,
    rows: NDArray[np.int64],
    alarms: Alarms,
    learnt_rows: NDArray[np.int64],
    features: Iterable[str],
    *,
    seed: int,
) -> str | None:
    """Find the best simple rule, if it is clearly better than a model's alarms for some jobs.

    Clearly means that the interval of the model's lead in F1 lies below 0.
    """
    rules, names = baseline_alarms(table, rows, learnt_rows), servable_rules(features)
    if not names:
        return None
    fails = table.fails[rows]
    best = best_rule(rules, fails, names)
    groups = bootstrap.groups(table.about[rows])
    bounds = bootstrap.difference(groups, fails, alarms, rules[best], seed=seed)["interval"]
    return best if bounds is not None and bounds[1] < 0 else None
