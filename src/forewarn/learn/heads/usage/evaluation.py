"""The evaluation of usage forecasts, compared with simple rules, on jobs after all that was learnt from.

A job that was cut short needs at least what it used: a larger prediction is no error, a smaller one is an
error by the difference. The coverage of quantiles is estimated by Kaplan and Meier, as in the recalibration.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarn.learn.data.table import JobTable
from forewarn.learn.evaluation.metrics import ScoredPredictions, finite_or_none
from forewarn.learn.heads.usage.baselines import codes, first_known, last_two, medians, most_similar
from forewarn.learn.heads.usage.distributions import Distributions, UsageForecast
from forewarn.learn.heads.usage.quantities import QUANTITIES, Target, targets, unit_memory
from forewarn.learn.heads.usage.recalibration import kaplan_meier
from forewarn.learn.heads.usage.usage import Cuts, Usage, blocks

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
LEVELS = (0.1, 0.5, 0.9)
ENOUGH = 0.95  # probability that memory which is requested by the forecast suffices
_SMALLEST = 1e-4


def evaluate_usage(usage: Usage, table: JobTable, cuts: Cuts, *, enough: float = ENOUGH) -> dict[str, Any]:
    """Compute the figures of each quantity on the test block, for the report."""
    all_targets = targets(table)
    figures: dict[str, Any] = {}
    for name, part in usage.parts.items():
        rows = blocks(table, all_targets[name], cuts)["test"]
        if not len(rows):
            continue
        forecast = usage.forecast(table, rows)
        distributions: Distributions = getattr(forecast, name)
        truth = Target(all_targets[name].value[rows], all_targets[name].exact[rows])
        rules = _rules(name, table, all_targets[name], rows, cuts)
        figures[name] = {
            "n": len(rows),
            "cut_short": int((~truth.exact).sum()),
            "learnt_from": part.jobs,
            "coverage": _coverage(distributions, truth),
            "pinball": {f"{level:g}": _pinball(distributions, truth, level) for level in LEVELS},
            "model": evaluate_point(name, distributions.quantile(0.5), truth),
            "rules": {rule: evaluate_point(name, predicted, truth) for rule, predicted in rules.items()},
        }
        if name == "run_time":
            figures[name]["over_limit"] = _over_limit(forecast, table, rows, truth)
        if name == "memory":
            requests = {"model": distributions.quantile(enough), **rules}
            figures[name]["enough"] = enough
            figures[name]["requests"] = {
                method: evaluate_request(requested, truth) for method, requested in requests.items()
            }
    return figures


def evaluate_point(name: str, predicted: Floats, truth: Target) -> dict[str, float | None]:
    """Compare one predicted number for each job with its true value."""
    answered = np.isfinite(predicted)
    predicted, value, exact = predicted[answered], truth.value[answered], truth.exact[answered]
    if not len(predicted):
        return {"answered": 0.0}
    quantity = QUANTITIES[name]
    scale = quantity.scale
    no_error = ~exact & (predicted >= value)  # cut short, and the prediction is larger
    relative = np.where(no_error, 0.0, np.abs(predicted - value)) / np.maximum(value, _least(name))
    distance = np.where(no_error, 0.0, np.abs(scale(predicted) - scale(value)))
    return {
        "answered": float(answered.mean()),
        "median_relative_error": float(np.median(relative)),
        "mape": float(relative[exact].mean()) if exact.any() else None,
        "underestimated": float((predicted < value).mean()),
        "mean_distance": float(distance.mean()),  # in doublings, where the scale is logarithmic
        "r2_log": _r2(scale(predicted[exact]), scale(value[exact])) if quantity.logarithmic else None,
        "r2": _r2(predicted[exact], value[exact]),
    }


def evaluate_request(requested: Floats, truth: Target) -> dict[str, float | None]:
    """Compute how often a request would be too small, and how much of it would not be needed.

    >>> truth = Target(np.array([2.0, 4.0]), np.array([True, True]))
    >>> evaluate_request(np.array([4.0, 3.0]), truth)
    {'short': 0.5, 'wasted': 0.25, 'times_needed': 1.375}
    """
    known = np.isfinite(requested) & truth.exact
    requested, needed = requested[known], truth.value[known]
    if not len(requested):
        return {"short": None, "wasted": None, "times_needed": None}
    unneeded = np.maximum(requested - needed, 0.0) / np.maximum(requested, 1.0)
    return {
        "short": float((requested < needed).mean()),
        "wasted": float(unneeded.mean()),
        "times_needed": float(np.median(requested / needed)),
    }


def _rules(name: str, table: JobTable, target: Target, rows: Ints, cuts: Cuts) -> dict[str, Floats]:
    """Compute the predictions of the simple rules."""
    # A rule learns from what was observed, also of jobs that were cut short: it does not handle censoring.
    observed = table.about["run_time"].cast(float).to_numpy() if name == "run_time" else target.value
    user, same = codes(table, "user"), codes(table, "user", "label")
    learnt = blocks(table, target, cuts)["learnt"]
    overall = np.full(len(rows), float(np.median(target.value[learnt])))
    requested = _requested(name, table)[rows]
    by_user = medians(table, observed, user, rows)
    rules = {
        "user_median": first_known(by_user, requested, overall),
        "name_median": first_known(medians(table, observed, same, rows), by_user, requested, overall),
        "most_similar": first_known(most_similar(table, observed, rows), requested, overall),
        "last_two": first_known(last_two(table, observed, user, rows), requested, overall),
    }
    return {"asked": requested, **rules} if np.isfinite(requested).any() else rules


def _requested(name: str, table: JobTable) -> Floats:
    if name == "run_time":
        return table.column("time_limit").astype(np.float64)
    return unit_memory(table) if name == "memory" else np.full(len(table.values), np.nan)


def _coverage(distributions: Distributions, truth: Target) -> dict[str, float]:
    shares = kaplan_meier(distributions.at_most(truth.value), truth.exact, np.array(LEVELS))
    return {f"{level:g}": float(share) for level, share in zip(LEVELS, shares, strict=True)}


def _pinball(distributions: Distributions, truth: Target, level: float) -> float:
    scale = distributions.quantity.scale
    short = scale(truth.value) - scale(distributions.quantile(level))
    loss = np.where(short >= 0, level * short, np.where(truth.exact, (level - 1) * short, 0.0))
    return float(loss.mean())


def _over_limit(forecast: UsageForecast, table: JobTable, rows: Ints, truth: Target) -> dict[str, Any] | None:
    """Evaluate the probability of running to the time limit."""
    limit = table.column("time_limit").astype(np.float64)[rows]
    limited = np.isfinite(limit)
    over_limit = forecast.over_limit(limit)
    if over_limit is None or not limited.any():
        return None
    p = np.clip(over_limit[limited], _SMALLEST, 1 - _SMALLEST)
    reached = (truth.value >= limit)[limited].astype(np.float64)
    rate = float(np.clip(reached.mean(), _SMALLEST, 1 - _SMALLEST))
    return {
        "n": int(limited.sum()),
        "came": float(reached.mean()),
        "said": float(p.mean()),
        "roc_auc": finite_or_none(ScoredPredictions(reached, p).roc_auc()),
        "log_loss": float(-(reached * np.log(p) + (1 - reached) * np.log(1 - p)).mean()),
        "log_loss_of_rate": float(-(rate * np.log(rate) + (1 - rate) * np.log(1 - rate))),
    }


def _r2(predicted: Floats, value: Floats) -> float | None:
    spread = float(((value - value.mean()) ** 2).sum()) if len(value) else 0.0
    return 1 - float(((predicted - value) ** 2).sum()) / spread if spread > 0 else None


def _least(name: str) -> float:
    """Return the least value that relative errors are divided by."""
    return 1.0 if QUANTITIES[name].logarithmic else 0.01
