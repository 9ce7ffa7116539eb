"""Figures by cause: how well the jobs that will end so are ranked above all others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from forewarn.learn.evaluation.metrics import Alarms, Floats, ScoredPredictions, defined
from forewarn.learn.heads.causes import OTHER, causes_of


def by_cause(about: pl.DataFrame, fails: Floats, outcomes: Mapping[str, Floats]) -> dict[str, dict[str, Any]]:
    """Judge the probability of each outcome (time-out, out of memory, …) on all jobs, failed or not.

    `hours` has the same with each job weighing the CPU hours that it used, and the share of the hours that
    ended so; None where the source does not tell hours. Causes that were not there to learn from have no
    probability, and stand here with what there was of them.
    """
    ended = causes_of(about)["outcome"].fill_null("").to_numpy()
    used = about["cpu_hours"].cast(pl.Float64).fill_null(0.0).to_numpy()
    failed = fails > 0
    # The most frequent first. What is rare was learnt as one: there it is told, and its name is not.
    named, counts = np.unique(ended[failed], return_counts=True)
    found = [str(name) for name in named[np.argsort(-counts, kind="stable")]]
    return {
        name: _figures(failed & (ended == name), outcomes.get(name), used)
        for name in [*found, *(name for name in outcomes if name not in (*found, OTHER))]
    }


def _figures(so: Alarms, p: Floats | None, used: Floats) -> dict[str, Any]:
    ended_so = so.astype(np.float64)
    judged = None if p is None else ScoredPredictions(ended_so, p)
    known = bool(used.any())
    return {
        "n": int(so.sum()),
        "base_rate": defined(ended_so.mean()),
        "roc_auc": defined(judged.roc_auc()) if judged else None,
        "pr_auc": defined(judged.pr_auc()) if judged else None,
        "hours": {
            "share": defined((used * ended_so).sum() / used.sum()) if known else None,
            "roc_auc": defined(judged.roc_auc(used)) if judged and known else None,
            "pr_auc": defined(judged.pr_auc(used)) if judged and known else None,
        },
    }
