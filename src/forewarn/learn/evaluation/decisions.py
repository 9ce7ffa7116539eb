"""Figures by decision: a bulk of equal jobs that a user sends at once has one vote, however many they are.

By job, one script sent a thousand times outweighs everybody else. What a block proves is bounded by the
number of decisions in it, not of jobs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from forewarn.learn.evaluation import bootstrap
from forewarn.learn.evaluation.metrics import (
    Alarms,
    Floats,
    ScoredPredictions,
    defined,
    f1,
    weighted_at_threshold,
)

GAP = 600  # seconds without an equal job after which the next one is a new decision
FEW = 100  # effective decisions below which a block proves little
REQUEST = ("cpus", "nodes", "gpus", "memory", "time_limit", "partition", "qos")


def decisions(about: pl.DataFrame) -> NDArray[np.int64]:
    """The decision that each job belongs to, as a number; jobs come in order of submit.

    Jobs are of one decision if one user sent them with the same request, each less than ten minutes after the
    one before. Where a log has no users, equal jobs of anyone count as one user's.

    >>> jobs = {name: [1] * 5 for name in REQUEST} | {"user": ["ann", "ann", "bob", "ann", "ann"]}
    >>> decisions(pl.DataFrame(jobs | {"submit": [0, 9, 9, 609, 700]})).tolist()
    [0, 0, 1, 2, 2]
    """
    same = ("user", *REQUEST)
    begins = (pl.col("submit").diff() >= GAP).fill_null(True).over(same)
    keys = about.select(*same, bulk=begins.cum_sum().over(same))
    first = keys.with_row_index("row").select(pl.col("row").min().over(*same, "bulk")).to_series().to_numpy()
    return np.unique(first, return_inverse=True)[1].astype(np.int64)


def effective(bulks: NDArray[np.int64]) -> float:
    """How many decisions of equal size would tell as much: n² / Σ size².

    >>> effective(np.array([0, 1, 2])), round(effective(np.array([0] * 98 + [1, 2])), 2)
    (3.0, 1.04)
    """
    sizes = np.bincount(bulks)
    return float(len(bulks) ** 2 / (sizes.astype(np.float64) ** 2).sum()) if len(bulks) else 0.0


def decisions_of(about: pl.DataFrame) -> dict[str, Any]:
    """How many decisions a block of jobs holds, and whether they are too few to prove much."""
    bulks = decisions(about)
    worth = effective(bulks)
    return {"jobs": len(bulks), "decisions": len(np.unique(bulks)), "effective": worth, "few": worth < FEW}


def by_decision(
    about: pl.DataFrame,
    fails: Floats,
    p: Floats,
    alarms: Alarms,
    rules: Mapping[str, Alarms],
    *,
    seed: int = 0,
    resamples: int = bootstrap.RESAMPLES,
) -> dict[str, Any]:
    """Judge predictions with one vote for each decision: its jobs share it alike.

    `few` says that the number of effective decisions is too small to prove much.
    """
    bulks = decisions(about)
    votes = 1.0 / np.bincount(bulks)[bulks]
    judged = ScoredPredictions(fails, p)
    of_rules = {name: f1(fails, simple, votes) for name, simple in rules.items()}
    best = max(of_rules, key=lambda name: of_rules[name])
    worth = effective(bulks)
    measures: dict[str, bootstrap.Statistic] = {
        "roc_auc": judged.roc_auc,
        "pr_auc": judged.pr_auc,
        "f1": lambda weights: f1(fails, alarms, weights),
        "f1_above_best_baseline": lambda weights: (
            f1(fails, alarms, weights) - f1(fails, rules[best], weights)
        ),
    }
    return {
        "decisions": int(bulks.max()) + 1,
        "effective": worth,
        "few": worth < FEW,
        "base_rate": defined(np.average(fails, weights=votes)),
        "roc_auc": defined(judged.roc_auc(votes)),
        "pr_auc": defined(judged.pr_auc(votes)),
        "brier": defined(judged.brier(votes)),
        "ece": defined(judged.ece(votes)),
        "log_loss": defined(judged.log_loss(votes)),
        **weighted_at_threshold(fails, alarms, votes),
        "baselines": of_rules,
        "above_best_baseline": {
            "baseline": best,
            "f1": measures["f1_above_best_baseline"](votes),
        },
        "intervals": bootstrap.intervals(
            bootstrap.groups(about), measures, resamples=resamples, seed=seed, counts=votes
        ),
    }
