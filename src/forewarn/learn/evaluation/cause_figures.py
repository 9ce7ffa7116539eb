"""Figures by cause: how well the jobs that end by a cause are ranked above all others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from forewarn.learn.evaluation.metrics import Alarms, Floats, ScoredPredictions, finite_or_none
from forewarn.learn.heads.causes import OTHER, causes_of


def evaluate_by_cause(
    about: pl.DataFrame, fails: Floats, outcomes: Mapping[str, Floats]
) -> dict[str, dict[str, Any]]:
    """Evaluate the probability of each outcome (timeout, out of memory, …) on all jobs, failed or not.

    `hours` has the same figures with each job weighted by the CPU hours that it used, and the share of the
    hours used by jobs with this outcome; None where the source has no hours. Causes that were not in the
    training jobs have no probability, and are listed with their counts.
    """
    outcome = causes_of(about)["outcome"].fill_null("").to_numpy()
    used = about["cpu_hours"].cast(pl.Float64).fill_null(0.0).to_numpy()
    failed = fails > 0
    # The most frequent first. Rare causes were learnt as one class, `other`; here they have their own names.
    names, counts = np.unique(outcome[failed], return_counts=True)
    observed = [str(name) for name in names[np.argsort(-counts, kind="stable")]]
    return {
        name: _figures(failed & (outcome == name), outcomes.get(name), used)
        for name in [*observed, *(name for name in outcomes if name not in (*observed, OTHER))]
    }


def _figures(has_outcome: Alarms, p: Floats | None, used: Floats) -> dict[str, Any]:
    target = has_outcome.astype(np.float64)
    scored = None if p is None else ScoredPredictions(target, p)
    hours_known = bool(used.any())
    return {
        "n": int(has_outcome.sum()),
        "base_rate": finite_or_none(target.mean()),
        "roc_auc": finite_or_none(scored.roc_auc()) if scored else None,
        "pr_auc": finite_or_none(scored.pr_auc()) if scored else None,
        "hours": {
            "share": finite_or_none((used * target).sum() / used.sum()) if hours_known else None,
            "roc_auc": finite_or_none(scored.roc_auc(used)) if scored and hours_known else None,
            "pr_auc": finite_or_none(scored.pr_auc(used)) if scored and hours_known else None,
        },
    }
