"""One log, each phase, every figure beside the baselines on the same jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarn.learn import bootstrap
from forewarn.learn.baselines import baselines
from forewarn.learn.fitting import Fitted, Settings, Watch, fit, unwatched
from forewarn.learn.metrics import at_threshold, ranking
from forewarn.learn.prequential import InTime, retrained, static
from forewarn.learn.table import Table
from forewarn.learn.train import search_key

RETRAIN = ("none", "weekly")
POSTHOC_PROTOCOL = (
    "the papers' protocol: run time and CPU time are known only when a job has ended. Shown beside their "
    "tables, never served"
)


def benchmark(
    read: Callable[[str], Table],
    phases: Sequence[str],
    settings: Settings,
    *,
    retrain: str = "none",
    searches: Path,
    watch: Watch = unwatched,
) -> dict[str, Any]:
    """The figures of each phase. `read` gives the table of a phase."""
    found: dict[str, Any] = {}
    at_submit: dict[str, float] = {}
    for phase in phases:
        table = read(phase)
        fitted = fit(table, settings, folder=searches / search_key(table, settings), watch=watch)
        said = (
            retrained(table, fitted, settings, watch=watch) if retrain == "weekly" else static(table, fitted)
        )
        entry = figures(table, fitted, said, seed=settings.seed)
        ids = _ids(table, said.rows)
        if phase == "submit":
            at_submit = dict(zip(ids, said.p, strict=True))
        elif phase == "start" and at_submit:
            p = np.array([at_submit[job] for job in ids])
            entry["submit_on_these_jobs"] = ranking(table.fails[said.rows], p)
        elif phase == "posthoc":
            entry = {"protocol": POSTHOC_PROTOCOL, **entry}
        found[phase] = entry
    return found


def figures(table: Table, fitted: Fitted, said: InTime, *, seed: int) -> dict[str, Any]:
    """What was said of the test part against what came true, and against the simple rules."""
    fails, rows = table.fails[said.rows], said.rows
    alarms = said.p >= said.thresholds
    rules = baselines(table, rows, fitted.learnt)
    judged = {name: _short(fails, simple) for name, simple in rules.items()}
    best = max(judged, key=lambda name: judged[name]["f1"])
    groups = bootstrap.groups(table.about[rows])
    return {
        **ranking(fails, said.p),
        "at_validation": {"threshold": float(np.median(said.thresholds)), **_short(fails, alarms)},
        "threshold_rule": fitted.threshold.rule,
        "at_0_5": {"threshold": 0.5, **_short(fails, said.p >= 0.5)},
        "baselines": judged,
        "above_best_baseline": {
            "baseline": best,
            **bootstrap.difference(groups, fails, alarms, rules[best], seed=seed),
        },
        "intervals": bootstrap.intervals(groups, bootstrap.statistics(fails, said.p, alarms), seed=seed),
        "retrained": said.retrained,
        "members": {recipe.family: round(weight, 3) for weight, recipe in fitted.recipes if weight > 0},
        "calibration": fitted.calibration.kind,
        "trials": len(fitted.search.trials) if fitted.search else 0,
    }


def _short(fails: NDArray[np.float64], alarms: NDArray[np.bool_]) -> dict[str, float]:
    found = at_threshold(fails, alarms)
    return {name: found[name] for name in ("accuracy", "precision", "recall", "f1")}


def _ids(table: Table, rows: NDArray[np.int64]) -> list[str]:
    return [f"{job} {submit}" for job, submit in table.about[rows].select("job_id", "submit").iter_rows()]
