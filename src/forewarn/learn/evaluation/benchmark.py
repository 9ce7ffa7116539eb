"""One log, each phase, every figure beside the baselines on the same jobs."""

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
from forewarn.learn.evaluation.baselines import baselines, label
from forewarn.learn.evaluation.cause_figures import by_cause
from forewarn.learn.evaluation.decisions import by_decision, decisions_of
from forewarn.learn.evaluation.hours import by_hours
from forewarn.learn.evaluation.metrics import at_threshold, ranking
from forewarn.learn.evaluation.prequential import TimedPredictions, retrained, static
from forewarn.learn.evaluation.published import PUBLISHED
from forewarn.learn.fitting.fit import FitResult, FitSettings, fit
from forewarn.learn.fitting.train import search_key
from forewarn.progress import Watch, unwatched

POSTHOC_PROTOCOL = (
    "the papers' protocol: run time and CPU time are known only when a job has ended. Shown beside their "
    "tables, never served"
)


def benchmark(
    read: Callable[[str], JobTable],
    phases: Sequence[str],
    settings: FitSettings,
    *,
    retrain: str = "none",
    searches: Path,
    watch: Watch = unwatched,
) -> dict[str, Any]:
    """The figures of each phase. `read` gives the table of a phase, `searches` keeps unfinished searches."""
    found: dict[str, Any] = {}
    searched: list[Path] = []
    at_submit: dict[str, tuple[float, float]] = {}  # probability and threshold of each job
    for phase in phases:
        table = read(phase)
        search = searches / search_key(table, settings)
        fitted = fit(table, settings, folder=search, watch=watch)
        said = (
            retrained(table, fitted, settings, watch=watch) if retrain == "weekly" else static(table, fitted)
        )
        entry = figures(table, fitted, said, seed=settings.seed)
        searched.append(search)
        ids = _ids(table, said.rows)
        if phase == Phase.SUBMIT:
            at_submit = dict(zip(ids, zip(said.p, said.thresholds, strict=True), strict=True))
        elif phase == Phase.START and at_submit:
            p, thresholds = np.array([at_submit[job] for job in ids]).T
            entry["submit_on_these_jobs"] = {
                **ranking(table.fails[said.rows], p),
                **_at_both(table.fails[said.rows], p, thresholds),
            }
        elif phase == POSTHOC:
            entry = {"protocol": POSTHOC_PROTOCOL, **entry, "published": [dict(row) for row in PUBLISHED]}
        found[phase] = entry
    for search in searched:  # only now: an interrupted benchmark goes on with all its phases
        shutil.rmtree(search, ignore_errors=True)
    return found


def figures(table: JobTable, fitted: FitResult, said: TimedPredictions, *, seed: int) -> dict[str, Any]:
    """What was said of the test part against what came true, and against the simple rules."""
    fails, rows = table.fails[said.rows], said.rows
    about, alarms = table.about[rows], said.p >= said.thresholds
    causes = fitted.needs.causes
    rules = baselines(table, rows, fitted.learnt)
    judged = {name: _short(fails, simple) for name, simple in rules.items()}
    best = max(judged, key=lambda name: judged[name]["f1"])
    groups = bootstrap.groups(about)
    return {
        **ranking(fails, said.p),
        "threshold_rule": said.rule,
        **_at_both(fails, said.p, said.thresholds),
        "baselines": judged,
        "above_best_baseline": {
            "baseline": best,
            **bootstrap.difference(groups, fails, alarms, rules[best], seed=seed),
        },
        "intervals": bootstrap.intervals(groups, bootstrap.statistics(fails, said.p, alarms), seed=seed),
        "by_decision": {
            **by_decision(about, fails, said.p, alarms, rules, seed=seed),
            "blocks": {
                name: decisions_of(table.about[used]) for name, used in used_rows(table, fitted.parts).items()
            },
        },
        "hours": by_hours(about, fails, said.p, causes.hours_lost(said.by_cause, about), rules, seed=seed),
        "causes": by_cause(about, fails, causes.outcomes(said.by_cause)),
        "retrained": said.retrained,
        "abstention": _abstention(fails, said.p, fitted.abstains(table, rows)),
        "rule": fitted.rule and label(fitted.rule),
        "members": {recipe.family: round(weight, 3) for weight, recipe in fitted.recipes if weight > 0},
        "calibration": fitted.last_calibration.kind,
        "forecast_weight": fitted.pooling.weight if fitted.pooling and fitted.pooling.outcomes else None,
        "record_weight": fitted.pooling.record if fitted.pooling else 0.0,
        "trials": len(fitted.search.trials) if fitted.search else 0,
    }


def _abstention(
    fails: NDArray[np.float64], p: NDArray[np.float64], silent: NDArray[np.bool_]
) -> dict[str, Any]:
    """Of how many jobs the model would say that it does not know, and how good it is on the others."""
    others = ranking(fails[~silent], p[~silent]) if not silent.all() else None
    return {"share": float(silent.mean()), "others": others}


def _at_both(
    fails: NDArray[np.float64], p: NDArray[np.float64], thresholds: NDArray[np.float64]
) -> dict[str, Any]:
    """At the threshold that was chosen without these jobs, and at one half."""
    return {
        "at_validation": {"threshold": float(np.median(thresholds)), **_short(fails, p >= thresholds)},
        "at_0_5": {"threshold": 0.5, **_short(fails, p >= 0.5)},
    }


def _short(fails: NDArray[np.float64], alarms: NDArray[np.bool_]) -> dict[str, float]:
    found = at_threshold(fails, alarms)
    return {name: found[name] for name in ("accuracy", "precision", "recall", "f1")}


def _ids(table: JobTable, rows: NDArray[np.int64]) -> list[str]:
    return [f"{job} {submit}" for job, submit in table.about[rows].select("job_id", "submit").iter_rows()]
