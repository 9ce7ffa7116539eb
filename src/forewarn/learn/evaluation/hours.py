"""Figures by hours: each job weighs the CPU hours that it used, since hours are what a failure wastes.

Jobs are ranked in two ways. By their probability of failure, weighed by hours: of the hours flagged, how many
were wasted? And by the hours that each is expected to lose: which share of all wasted hours do the first jobs
of the list hold? Beside them stand the hours that a job asks for, which need no model, and the best rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from forewarn.learn.evaluation import bootstrap
from forewarn.learn.evaluation.metrics import Alarms, Floats, ScoredPredictions, defined

TOP = {"top_5": 0.05, "top_10": 0.10, "top_20": 0.20}  # of the jobs
NO_HOURS = "the source has no CPUs or no run times, so that hours are not known"
NO_ASKED = "the source has no CPUs or no time limits, so that the hours asked for are not known"


class RankedHours:
    """Jobs in the order of a score, for the share of the wasted hours that the first of them hold.

    Equal scores cannot be told apart: such jobs stand for their mean.

    >>> RankedHours(np.array([3.0, 1.0, 1.0, 0.0]), np.array([6.0, 4.0, 0.0, 0.0])).share(0.5)
    0.8
    """

    def __init__(self, score: Floats, wasted: Floats) -> None:
        self._order = np.argsort(-score, kind="stable")
        ordered = score[self._order]
        self._ends = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True))
        self._wasted = wasted[self._order]

    def share(self, top: float, weights: Floats | None = None) -> float:
        """The share of all wasted hours that the top of the list holds, of weighted jobs."""
        counts = np.ones(len(self._wasted)) if weights is None else weights[self._order]
        jobs = np.append(0.0, np.cumsum(counts)[self._ends])
        hours = np.append(0.0, np.cumsum(counts * self._wasted)[self._ends])
        return float(np.interp(top * jobs[-1], jobs, hours) / hours[-1]) if hours[-1] else np.nan


def by_hours(
    about: pl.DataFrame,
    fails: Floats,
    p: Floats,
    hours_lost: Floats | None,
    rules: Mapping[str, Alarms],
    *,
    seed: int = 0,
    resamples: int = bootstrap.RESAMPLES,
) -> dict[str, Any]:
    """Judge predictions by the CPU hours behind them.

    Parameters
    ----------
    about
        Jobs with `cpu_hours` and `asked_cpu_hours`. Those without known hours are left out.
    hours_lost
        CPU hours that each job is expected to lose; where it is None, P(failure) × hours asked.

    Everything is None, with a `note` that says why, where the source does not tell hours.
    """
    used = about["cpu_hours"].cast(pl.Float64).fill_null(np.nan).to_numpy()
    asked = about["asked_cpu_hours"].cast(pl.Float64).fill_null(np.nan).to_numpy()
    counted = np.isfinite(used)
    if not (used[counted] > 0).any():
        return _nothing(NO_HOURS)
    has_asked = bool(np.isfinite(asked[counted]).any())
    about, fails, p, used = about.filter(pl.Series(counted)), fails[counted], p[counted], used[counted]
    # A job that does not tell what it asks for is taken for a middling one: last or first would be a guess.
    asked = np.nan_to_num(asked[counted], nan=float(np.nanmedian(asked[counted])) if has_asked else 0.0)
    expected = p * asked
    if hours_lost is not None:
        expected = np.where(np.isfinite(hours_lost[counted]), hours_lost[counted], expected)
    warned = {name: alarms[counted].astype(np.float64) for name, alarms in rules.items()}
    wasted = used * fails

    model = _measures(fails, used, p, expected if has_asked else None, wasted)
    alone = _measures(fails, used, asked, asked, wasted) if has_asked else {}
    # A rule warns or not: within each half the hours asked for say who comes first.
    of_rules = {
        name: _measures(fails, used, warns, warns * (1 + asked.max()) + asked if has_asked else None, wasted)
        for name, warns in warned.items()
    }
    area = {name: measures["pr_auc"](_ones(fails)) for name, measures in of_rules.items()}
    best = max(area, key=lambda name: np.nan_to_num(area[name], nan=-1.0))
    compared = {
        **model,
        **{
            f"{name}_above_{whom}": _less(model[name], others[name])
            for whom, others in (("asked_alone", alone), ("best_rule", of_rules[best]))
            for name in ("pr_auc", "top_10")
            if name in others and name in model
        },
    }
    groups = bootstrap.groups(about)
    return {
        "n": len(fails),
        "cpu_hours": float(used.sum()),
        "wasted": float(wasted.sum()),
        "wasted_share": defined(wasted.sum() / used.sum()),
        **_values(model, fails),
        "asked_alone": _values(alone, fails),
        "best_rule": {"rule": best, **_values(of_rules[best], fails)},
        "above": {name: _value(compared[name], fails) for name in compared if "_above_" in name},
        "intervals": bootstrap.intervals(groups, compared, resamples=resamples, seed=seed),
        "note": None if has_asked else NO_ASKED,
    }


def _measures(
    fails: Floats, used: Floats, score: Floats, lost: Floats | None, wasted: Floats
) -> dict[str, bootstrap.Statistic]:
    judged = ScoredPredictions(fails, score)
    made: dict[str, bootstrap.Statistic] = {
        "roc_auc": lambda weights: judged.roc_auc(weights * used),
        "pr_auc": lambda weights: judged.pr_auc(weights * used),
    }
    if lost is not None:
        ranked = RankedHours(lost, wasted)
        made |= {name: partial(ranked.share, top) for name, top in TOP.items()}
    return made


def _values(measures: Mapping[str, bootstrap.Statistic], fails: Floats) -> dict[str, float | None]:
    return {
        name: _value(measures[name], fails) if name in measures else None
        for name in ("roc_auc", "pr_auc", *TOP)
    }


def _value(measure: bootstrap.Statistic, fails: Floats) -> float | None:
    return defined(measure(_ones(fails)))


def _ones(fails: Floats) -> Floats:
    return np.ones(len(fails))


def _less(ours: bootstrap.Statistic, theirs: bootstrap.Statistic) -> bootstrap.Statistic:
    return lambda weights: ours(weights) - theirs(weights)


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
