"""How well usage is foreseen, beside what needs no model, on jobs after all that was learnt from.

A job that was cut short is known to need at least what it had: saying more is no error, saying less is one by
what is missing. Whether a quantile holds is told by Kaplan and Meier, as the levels are set.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarn.learn.data.table import JobTable
from forewarn.learn.evaluation.metrics import ScoredPredictions, defined
from forewarn.learn.heads.usage.baselines import codes, first_known, last_two, medians, most_similar
from forewarn.learn.heads.usage.distributions import Distributions, UsageForecast
from forewarn.learn.heads.usage.quantities import QUANTITIES, Target, targets, unit_memory
from forewarn.learn.heads.usage.recalibration import below
from forewarn.learn.heads.usage.usage import Cuts, Usage, blocks

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
LEVELS = (0.1, 0.5, 0.9)
ENOUGH = 0.95  # the chance with which memory foreseen as a request is enough
_SMALLEST = 1e-4


def judge(usage: Usage, table: JobTable, cuts: Cuts, *, enough: float = ENOUGH) -> dict[str, Any]:
    """The figures of each quantity on the test part, for the report."""
    told = targets(table)
    made: dict[str, Any] = {}
    for name, part in usage.parts.items():
        rows = blocks(table, told[name], cuts)["test"]
        if not len(rows):
            continue
        foreseen = usage.foresee(table, rows)
        said: Distributions = getattr(foreseen, name)
        truth = Target(told[name].value[rows], told[name].exact[rows])
        rules = _rules(name, table, told[name], rows, cuts)
        made[name] = {
            "n": len(rows),
            "cut_short": int((~truth.exact).sum()),
            "learnt_from": part.jobs,
            "coverage": _coverage(said, truth),
            "pinball": {f"{level:g}": _pinball(said, truth, level) for level in LEVELS},
            "model": point(name, said.quantile(0.5), truth),
            "rules": {rule: point(name, answer, truth) for rule, answer in rules.items()},
        }
        if name == "run_time":
            made[name]["over_limit"] = _over_limit(foreseen, table, rows, truth)
        if name == "memory":
            requests = {"model": said.quantile(enough), **rules}
            made[name]["enough"] = enough
            made[name]["requests"] = {how: as_request(asked, truth) for how, asked in requests.items()}
    return made


def point(name: str, said: Floats, truth: Target) -> dict[str, float | None]:
    """One number for each job against what came true."""
    there = np.isfinite(said)
    said, value, exact = said[there], truth.value[there], truth.exact[there]
    if not len(said):
        return {"answered": 0.0}
    scaled = QUANTITIES[name].scaled
    fine = ~exact & (said >= value)  # cut short, and more was said
    relative = np.where(fine, 0.0, np.abs(said - value)) / np.maximum(value, _least(name))
    apart = np.where(fine, 0.0, np.abs(scaled(said) - scaled(value)))
    return {
        "answered": float(there.mean()),
        "median_relative_error": float(np.median(relative)),
        "mape": float(relative[exact].mean()) if exact.any() else None,
        "underestimated": float((said < value).mean()),
        "mean_distance": float(apart.mean()),  # in doublings, where the scale is logarithmic
        "r2_log": _r2(scaled(said[exact]), scaled(value[exact])) if QUANTITIES[name].logarithmic else None,
        "r2": _r2(said[exact], value[exact]),
    }


def as_request(asked: Floats, truth: Target) -> dict[str, float | None]:
    """If this were asked for: how often it is too little, and what of it is not needed.

    >>> truth = Target(np.array([2.0, 4.0]), np.array([True, True]))
    >>> as_request(np.array([4.0, 3.0]), truth)
    {'short': 0.5, 'wasted': 0.25, 'times_needed': 1.375}
    """
    there = np.isfinite(asked) & truth.exact
    asked, need = asked[there], truth.value[there]
    if not len(asked):
        return {"short": None, "wasted": None, "times_needed": None}
    unneeded = np.maximum(asked - need, 0.0) / np.maximum(asked, 1.0)
    return {
        "short": float((asked < need).mean()),
        "wasted": float(unneeded.mean()),
        "times_needed": float(np.median(asked / need)),
    }


def _rules(name: str, table: JobTable, told: Target, rows: Ints, cuts: Cuts) -> dict[str, Floats]:
    """The answers of what needs no model."""
    # What a rule learns from is what was seen, whole or not: it knows no better.
    seen = table.about["run_time"].cast(float).to_numpy() if name == "run_time" else told.value
    user, same = codes(table, "user"), codes(table, "user", "label")
    learnt = blocks(table, told, cuts)["learnt"]
    usual = np.full(len(rows), float(np.median(told.value[learnt])))
    asked = _asked(name, table)[rows]
    of_user = medians(table, seen, user, rows)
    rules = {
        "user_median": first_known(of_user, asked, usual),
        "name_median": first_known(medians(table, seen, same, rows), of_user, asked, usual),
        "most_similar": first_known(most_similar(table, seen, rows), asked, usual),
        "last_two": first_known(last_two(table, seen, user, rows), asked, usual),
    }
    return {"asked": asked, **rules} if np.isfinite(asked).any() else rules


def _asked(name: str, table: JobTable) -> Floats:
    if name == "run_time":
        return table.column("time_limit").astype(np.float64)
    return unit_memory(table) if name == "memory" else np.full(len(table.values), np.nan)


def _coverage(said: Distributions, truth: Target) -> dict[str, float]:
    found = below(said.said(truth.value), truth.exact, np.array(LEVELS))
    return {f"{level:g}": float(share) for level, share in zip(LEVELS, found, strict=True)}


def _pinball(said: Distributions, truth: Target, level: float) -> float:
    scaled = said.quantity.scaled
    short = scaled(truth.value) - scaled(said.quantile(level))
    loss = np.where(short >= 0, level * short, np.where(truth.exact, (level - 1) * short, 0.0))
    return float(loss.mean())


def _over_limit(foreseen: UsageForecast, table: JobTable, rows: Ints, truth: Target) -> dict[str, Any] | None:
    """Whether jobs that ran to their limit were given a higher chance of it."""
    limit = table.column("time_limit").astype(np.float64)[rows]
    there = np.isfinite(limit)
    said = foreseen.over_limit(limit)
    if said is None or not there.any():
        return None
    p = np.clip(said[there], _SMALLEST, 1 - _SMALLEST)
    came = (truth.value >= limit)[there].astype(np.float64)
    rate = float(np.clip(came.mean(), _SMALLEST, 1 - _SMALLEST))
    return {
        "n": int(there.sum()),
        "came": float(came.mean()),
        "said": float(p.mean()),
        "roc_auc": defined(ScoredPredictions(came, p).roc_auc()),
        "log_loss": float(-(came * np.log(p) + (1 - came) * np.log(1 - p)).mean()),
        "log_loss_of_rate": float(-(rate * np.log(rate) + (1 - rate) * np.log(1 - rate))),
    }


def _r2(said: Floats, value: Floats) -> float | None:
    spread = float(((value - value.mean()) ** 2).sum()) if len(value) else 0.0
    return 1 - float(((said - value) ** 2).sum()) / spread if spread > 0 else None


def _least(name: str) -> float:
    return 1.0 if QUANTITIES[name].logarithmic else 0.01
