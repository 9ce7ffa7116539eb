"""The benchmark: the figures of one log at each phase, beside those of simple rules on the same jobs."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarn.job.phase import POSTHOC, Phase
from forewarn.learn.data.split import used_rows
from forewarn.learn.data.table import JobTable
from forewarn.learn.evaluation import bootstrap
from forewarn.learn.evaluation.baselines import baseline_alarms
from forewarn.learn.evaluation.cause_figures import evaluate_by_cause
from forewarn.learn.evaluation.decisions import count_decisions, evaluate_by_decision
from forewarn.learn.evaluation.hours import evaluate_by_hours
from forewarn.learn.evaluation.metrics import at_threshold, ranking
from forewarn.learn.evaluation.prequential import TimedPredictions, predict_retrained, predict_static
from forewarn.learn.evaluation.published import PUBLISHED
from forewarn.learn.evaluation.rule_labels import rule_label
from forewarn.learn.fitting.fit import fit
from forewarn.learn.fitting.fit_result import FitResult
from forewarn.learn.fitting.fit_settings import FitSettings
from forewarn.learn.fitting.train import search_key
from forewarn.progress import ShowProgress, no_progress

POSTHOC_PROTOCOL = (
    "the papers' protocol, in which run time and CPU time are known: to compare with their tables, never "
    "served"
)


def benchmark(
    read: Callable[[str], JobTable],
    phases: Sequence[str],
    settings: FitSettings,
    *,
    retrain: str = "none",
    searches: Path,
    watch: ShowProgress = no_progress,
) -> dict[str, Any]:
    """Compute the figures of each phase.

    `read` returns the table of a phase, `searches` is the folder of unfinished searches.
    """
    entries: dict[str, Any] = {}
    searched: list[Path] = []
    at_submit: dict[str, tuple[float, float]] = {}  # probability and threshold of each job
    for phase in phases:
        table = read(phase)
        search = searches / search_key(table, settings)
        fitted = fit(table, settings, folder=search, watch=watch)
        if retrain == "weekly":
            predictions = predict_retrained(table, fitted, settings, watch=watch)
        else:
            predictions = predict_static(table, fitted)
        entry = figures(table, fitted, predictions, seed=settings.seed)
        searched.append(search)
        ids, fails = _ids(table, predictions.rows), table.fails[predictions.rows]
        if phase == Phase.SUBMIT:
            pairs = zip(predictions.p, predictions.thresholds, strict=True)
            at_submit = dict(zip(ids, pairs, strict=True))
        elif phase == Phase.START and at_submit:
            p, thresholds = np.array([at_submit[job] for job in ids]).T
            entry["submit_on_these_jobs"] = {**ranking(fails, p), **_at_both(fails, p, thresholds)}
        elif phase == POSTHOC:
            entry = {"protocol": POSTHOC_PROTOCOL, **entry, "published": [dict(row) for row in PUBLISHED]}
        entries[phase] = entry
    for search in searched:  # only now, so that an interrupted benchmark resumes all its phases
        shutil.rmtree(search, ignore_errors=True)
    return entries


def figures(
    table: JobTable, fitted: FitResult, predictions: TimedPredictions, *, seed: int
) -> dict[str, Any]:
    """Compare predictions for the test block with the outcomes, and with the simple rules."""
    rows, p, thresholds = predictions.rows, predictions.p, predictions.thresholds
    fails, about, alarms = table.fails[rows], table.about[rows], p >= thresholds
    causes = fitted.risk_inputs.causes
    rules = baseline_alarms(table, rows, fitted.learnt_rows)
    baselines = {name: _short(fails, rule_alarms) for name, rule_alarms in rules.items()}
    best = max(baselines, key=lambda name: baselines[name]["f1"])
    groups = bootstrap.groups(about)
    blocks = used_rows(table, fitted.parts)
    hours_lost = causes.hours_lost(predictions.by_cause, about)
    return {
        **ranking(fails, p),
        "threshold_rule": predictions.rule,
        **_at_both(fails, p, thresholds),
        "baselines": baselines,
        "above_best_baseline": {
            "baseline": best,
            **bootstrap.difference(groups, fails, alarms, rules[best], seed=seed),
        },
        "intervals": bootstrap.intervals(groups, bootstrap.statistics(fails, p, alarms), seed=seed),
        "by_decision": {
            **evaluate_by_decision(about, fails, p, alarms, rules, seed=seed),
            "blocks": {name: count_decisions(table.about[used]) for name, used in blocks.items()},
        },
        "hours": evaluate_by_hours(about, fails, p, hours_lost, rules, seed=seed),
        "causes": evaluate_by_cause(about, fails, causes.outcomes(predictions.by_cause)),
        "retrained": predictions.retrained,
        "abstention": _abstention(fails, p, fitted.abstains(table, rows)),
        "rule": fitted.rule and rule_label(fitted.rule),
        "members": {recipe.family: round(weight, 3) for weight, recipe in fitted.recipes if weight > 0},
        "calibration": fitted.last_calibration.method,
        "forecast_weight": fitted.pooling.weight if fitted.pooling and fitted.pooling.outcomes else None,
        "record_weight": fitted.pooling.record if fitted.pooling else 0.0,
        "trials": len(fitted.search.trials) if fitted.search else 0,
    }


def _abstention(
    fails: NDArray[np.float64], p: NDArray[np.float64], abstains: NDArray[np.bool_]
) -> dict[str, Any]:
    """Compute the share of jobs for which the model abstains, and how good it is on the others."""
    others = ranking(fails[~abstains], p[~abstains]) if not abstains.all() else None
    return {"share": float(abstains.mean()), "others": others}


def _at_both(
    fails: NDArray[np.float64], p: NDArray[np.float64], thresholds: NDArray[np.float64]
) -> dict[str, Any]:
    """Compute the figures at the threshold that was chosen without these jobs, and at one half."""
    return {
        "at_validation": {"threshold": float(np.median(thresholds)), **_short(fails, p >= thresholds)},
        "at_0_5": {"threshold": 0.5, **_short(fails, p >= 0.5)},
    }


def _short(fails: NDArray[np.float64], alarms: NDArray[np.bool_]) -> dict[str, float]:
    full = at_threshold(fails, alarms)
    return {name: full[name] for name in ("accuracy", "precision", "recall", "f1")}


def _ids(table: JobTable, rows: NDArray[np.int64]) -> list[str]:
    return [f"{job} {submit}" for job, submit in table.about[rows].select("job_id", "submit").iter_rows()]
