"""Figures by decision: a bulk of equal jobs that a user submits at once has one vote, whatever its size.

By job, one script that is submitted a thousand times outweighs all other users. What a block can prove is
limited by the number of decisions in it, not of jobs.
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
    f1,
    finite_or_none,
    weighted_at_threshold,
)

GAP = 600  # seconds without an equal job after which the next one is a new decision
FEW = 100  # effective decisions below which a block proves little
REQUEST = ("cpus", "nodes", "gpus", "memory", "time_limit", "partition", "qos")


def decisions(about: pl.DataFrame) -> NDArray[np.int64]:
    """Assign each job the number of its decision; jobs are in order of submit.

    Jobs belong to one decision if one user submitted them with the same request, each less than ten minutes
    after the one before. Where a log has no users, equal jobs of anyone count as one user's.

    >>> jobs = {name: [1] * 5 for name in REQUEST} | {"user": ["ann", "ann", "bob", "ann", "ann"]}
    >>> decisions(pl.DataFrame(jobs | {"submit": [0, 9, 9, 609, 700]})).tolist()
    [0, 0, 1, 2, 2]
    """
    same = ("user", *REQUEST)
    begins = (pl.col("submit").diff() >= GAP).fill_null(True).over(same)
    keys = about.select(*same, bulk=begins.cum_sum().over(same))
    first = keys.with_row_index("row").select(pl.col("row").min().over(*same, "bulk")).to_series().to_numpy()
    return np.unique(first, return_inverse=True)[1].astype(np.int64)


def effective_count(bulks: NDArray[np.int64]) -> float:
    """Compute the effective number of decisions, as if all had the same size: n² / Σ size².

    >>> effective_count(np.array([0, 1, 2])), round(effective_count(np.array([0] * 98 + [1, 2])), 2)
    (3.0, 1.04)
    """
    sizes = np.bincount(bulks)
    return float(len(bulks) ** 2 / (sizes.astype(np.float64) ** 2).sum()) if len(bulks) else 0.0


def count_decisions(about: pl.DataFrame) -> dict[str, Any]:
    """Count the decisions in a block of jobs, and check whether they are too few to prove much."""
    bulks = decisions(about)
    effective = effective_count(bulks)
    return {
        "jobs": len(bulks),
        "decisions": len(np.unique(bulks)),
        "effective": effective,
        "few": effective < FEW,
    }


def evaluate_by_decision(
    about: pl.DataFrame,
    fails: Floats,
    p: Floats,
    alarms: Alarms,
    rules: Mapping[str, Alarms],
    *,
    seed: int = 0,
    resamples: int = bootstrap.RESAMPLES,
) -> dict[str, Any]:
    """Evaluate predictions with one vote for each decision, shared equally by its jobs.

    `few` means that the effective number of decisions is too small to prove much.
    """
    bulks = decisions(about)
    votes = 1.0 / np.bincount(bulks)[bulks]
    scored = ScoredPredictions(fails, p)
    baselines = {name: f1(fails, rule_alarms, votes) for name, rule_alarms in rules.items()}
    best = max(baselines, key=lambda name: baselines[name])
    effective = effective_count(bulks)
    measures: dict[str, bootstrap.Statistic] = {
        "roc_auc": scored.roc_auc,
        "pr_auc": scored.pr_auc,
        "f1": lambda weights: f1(fails, alarms, weights),
        "f1_above_best_baseline": lambda weights: (
            f1(fails, alarms, weights) - f1(fails, rules[best], weights)
        ),
    }
    return {
        "decisions": int(bulks.max()) + 1,
        "effective": effective,
        "few": effective < FEW,
        "base_rate": finite_or_none(np.average(fails, weights=votes)),
        "roc_auc": finite_or_none(scored.roc_auc(votes)),
        "pr_auc": finite_or_none(scored.pr_auc(votes)),
        "brier": finite_or_none(scored.brier(votes)),
        "ece": finite_or_none(scored.ece(votes)),
        "log_loss": finite_or_none(scored.log_loss(votes)),
        **weighted_at_threshold(fails, alarms, votes),
        "baselines": baselines,
        "above_best_baseline": {
            "baseline": best,
            "f1": measures["f1_above_best_baseline"](votes),
        },
        "intervals": bootstrap.intervals(
            bootstrap.groups(about), measures, resamples=resamples, seed=seed, counts=votes
        ),
    }
