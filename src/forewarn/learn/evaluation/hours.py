"""Figures by hours: each job is weighted by the CPU hours that it used, since a failure wastes hours.

Jobs are ranked in two ways. By their probability of failure, weighted by hours: of the hours with an alarm,
how many were wasted? And by the hours that each is expected to lose: which share of all wasted hours do the
first jobs of the list hold? They are compared with a ranking by the requested hours, which needs no model,
and with the best simple rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from forewarn.learn.evaluation import bootstrap
from forewarn.learn.evaluation.metrics import Alarms, Floats, ScoredPredictions, finite_or_none

TOP = {"top_5": 0.05, "top_10": 0.10, "top_20": 0.20}  # of the jobs
NO_HOURS = "used hours are unknown: the source has no CPUs or no run times"
NO_REQUESTED = "requested hours are unknown: the source has no CPUs or no time limits"


class RankedHours:
    """Jobs in the order of a score, to compute the share of the wasted hours that the first of them hold.

    Jobs with equal scores have no order: each counts as their mean.

    >>> RankedHours(np.array([3.0, 1.0, 1.0, 0.0]), np.array([6.0, 4.0, 0.0, 0.0])).share(0.5)
    0.8
    """

    def __init__(self, score: Floats, wasted: Floats) -> None:
        self._order = np.argsort(-score, kind="stable")
        ordered = score[self._order]
        self._ends = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True))
        self._wasted = wasted[self._order]

    def share(self, top: float, weights: Floats | None = None) -> float:
        """Compute the share of all wasted hours that the top of the list holds, for weighted jobs."""
        ordered = np.ones(len(self._wasted)) if weights is None else weights[self._order]
        jobs = np.append(0.0, np.cumsum(ordered)[self._ends])
        hours = np.append(0.0, np.cumsum(ordered * self._wasted)[self._ends])
        return float(np.interp(top * jobs[-1], jobs, hours) / hours[-1]) if hours[-1] else np.nan


def evaluate_by_hours(
    about: pl.DataFrame,
    fails: Floats,
    p: Floats,
    hours_lost: Floats | None,
    rules: Mapping[str, Alarms],
    *,
    seed: int = 0,
    resamples: int = bootstrap.RESAMPLES,
) -> dict[str, Any]:
    """Evaluate predictions weighted by CPU hours.

    Parameters
    ----------
    about
        Jobs with `cpu_hours` and `asked_cpu_hours`. Those without known hours are left out.
    hours_lost
        CPU hours that each job is expected to lose; where it is None, P(failure) × requested hours.

    Everything is None, with a `note` that says why, where the source has no hours.
    """
    used = about["cpu_hours"].cast(pl.Float64).fill_null(np.nan).to_numpy()
    requested = about["asked_cpu_hours"].cast(pl.Float64).fill_null(np.nan).to_numpy()
    known = np.isfinite(used)
    if not (used[known] > 0).any():
        return _nothing(NO_HOURS)
    has_requests = bool(np.isfinite(requested[known]).any())
    about, fails, p, used = about.filter(pl.Series(known)), fails[known], p[known], used[known]
    # A job with an unknown request gets the median: to rank it first or last would be a guess.
    middle = float(np.nanmedian(requested[known])) if has_requests else 0.0
    requested = np.nan_to_num(requested[known], nan=middle)
    expected = p * requested
    if hours_lost is not None:
        expected = np.where(np.isfinite(hours_lost[known]), hours_lost[known], expected)
    rule_scores = {name: alarms[known].astype(np.float64) for name, alarms in rules.items()}
    wasted = used * fails

    model = _measures(fails, used, p, expected if has_requests else None, wasted)
    request_alone = _measures(fails, used, requested, requested, wasted) if has_requests else {}
    # A rule only separates jobs with and without an alarm: within each part they are ranked by requested
    # hours.
    by_rule = {
        name: _measures(
            fails, used, score, score * (1 + requested.max()) + requested if has_requests else None, wasted
        )
        for name, score in rule_scores.items()
    }
    area = {name: measures["pr_auc"](_ones(fails)) for name, measures in by_rule.items()}
    best = max(area, key=lambda name: np.nan_to_num(area[name], nan=-1.0))
    compared = {
        **model,
        **{
            f"{name}_above_{other}": _difference(model[name], measures[name])
            for other, measures in (("asked_alone", request_alone), ("best_rule", by_rule[best]))
            for name in ("pr_auc", "top_10")
            if name in measures and name in model
        },
    }
    groups = bootstrap.groups(about)
    return {
        "n": len(fails),
        "cpu_hours": float(used.sum()),
        "wasted": float(wasted.sum()),
        "wasted_share": finite_or_none(wasted.sum() / used.sum()),
        **_values(model, fails),
        "asked_alone": _values(request_alone, fails),
        "best_rule": {"rule": best, **_values(by_rule[best], fails)},
        "above": {name: _value(compared[name], fails) for name in compared if "_above_" in name},
        "intervals": bootstrap.intervals(groups, compared, resamples=resamples, seed=seed),
        "note": None if has_requests else NO_REQUESTED,
    }


def _measures(
    fails: Floats, used: Floats, score: Floats, lost: Floats | None, wasted: Floats
) -> dict[str, bootstrap.Statistic]:
    scored = ScoredPredictions(fails, score)
    measures: dict[str, bootstrap.Statistic] = {
        "roc_auc": lambda weights: scored.roc_auc(weights * used),
        "pr_auc": lambda weights: scored.pr_auc(weights * used),
    }
    if lost is not None:
        ranked = RankedHours(lost, wasted)
        measures |= {name: partial(ranked.share, top) for name, top in TOP.items()}
    return measures


def _values(measures: Mapping[str, bootstrap.Statistic], fails: Floats) -> dict[str, float | None]:
    return {
        name: _value(measures[name], fails) if name in measures else None
        for name in ("roc_auc", "pr_auc", *TOP)
    }


def _value(measure: bootstrap.Statistic, fails: Floats) -> float | None:
    return finite_or_none(measure(_ones(fails)))


def _ones(fails: Floats) -> Floats:
    return np.ones(len(fails))


def _difference(one: bootstrap.Statistic, other: bootstrap.Statistic) -> bootstrap.Statistic:
    return lambda weights: one(weights) - other(weights)


def _nothing(why: str) -> dict[str, Any]:
    names = ("roc_auc", "pr_auc", *TOP)
    return {
        **dict.fromkeys(("n", "cpu_hours", "wasted", "wasted_share", *names)),
        "asked_alone": dict.fromkeys(names),
        "best_rule": None,
        "above": {},
        "intervals": {},
        "note": why,
    }
