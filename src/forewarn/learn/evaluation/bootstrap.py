"""Bootstrap intervals that account for bursts of jobs.

Jobs of one user within one week resemble each other: a script that crashes is submitted again and again.
Resampling single jobs would treat them as independent and give intervals that are too narrow, so whole
user-weeks are resampled. A resample is a weight for each row (how often its user-week was drawn): nothing is
copied or sorted again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from forewarn.learn.evaluation.metrics import Alarms, Floats, ScoredPredictions, f1

Groups = NDArray[np.int64]
Statistic = Callable[[Floats], float]  # of the rows under these weights
RESAMPLES = 300
DAY = 86_400
_REQUEST = ("partition", "label", "cpus", "nodes", "time_limit")


def groups(about: pl.DataFrame) -> Groups:
    """Assign each job the number of its user-week.

    Weeks are ISO weeks in UTC. Jobs without a user are grouped by equal requests in that week; a job of which
    the request is unknown too is a group of its own.

    >>> groups(pl.DataFrame({"user": ["ann", "ann", "ann", None, None], "submit": [0, 5, 604800, 0, 0]}))
    array([0, 0, 1, 2, 3])
    """
    week = (pl.col("submit") // DAY + 3) // 7  # the epoch began on a Thursday
    request = [name for name in _REQUEST if name in about.columns]
    no_user, unknown = pl.col("user").is_null(), pl.all_horizontal(pl.lit(True), pl.col(request).is_null())
    parts = [
        *(pl.col("user"), week.alias("week")),
        *(pl.when(no_user).then(name).alias(name) for name in request),
        pl.when(no_user & unknown).then(pl.int_range(pl.len())).alias("alone"),
    ]
    keys = about.select(pl.struct(parts).alias("key"))
    first = keys.with_row_index("row").select(pl.col("row").min().over("key")).to_series().to_numpy()
    return np.unique(first, return_inverse=True)[1].astype(np.int64)


def statistics(fails: Floats, p: Floats, alarms: Alarms) -> dict[str, Statistic]:
    """Return the measures of a report, each a function of row weights."""
    scored = ScoredPredictions(fails, p)
    return {
        "roc_auc": scored.roc_auc,
        "pr_auc": scored.pr_auc,
        "brier": scored.brier,
        "ece": scored.ece,
        "log_loss": scored.log_loss,
        "f1": lambda weights: f1(fails, alarms, weights),
    }


def intervals(
    groups: Groups,
    statistics: Mapping[str, Statistic],
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
    level: float = 0.95,
    counts: Floats | None = None,
) -> dict[str, list[float] | None]:
    """Compute the percentile interval of each statistic; `counts` are row weights within each resample.

    It is `None` with fewer than two groups, or for a statistic that is undefined in most resamples (a ROC-AUC
    when nearly all of them have one class only).
    """
    if not len(groups) or groups.max() < 1:
        return dict.fromkeys(statistics)
    drawn = np.array(
        [
            [measure(weights if counts is None else weights * counts) for measure in statistics.values()]
            for weights in _resample(groups, resamples, seed)
        ]
    )
    return {name: _interval(drawn[:, place], level) for place, name in enumerate(statistics)}


def difference(
    groups: Groups,
    fails: Floats,
    alarms: Alarms,
    baseline: Alarms,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
    level: float = 0.95,
) -> dict[str, Any]:
    """Compute the lead of the alarms over a baseline in F1, with an interval from paired resamples.

    Both sides are passed as alarms, so that each may have thresholds that vary over time.
    """

    def lead(weights: Floats) -> float:
        return f1(fails, alarms, weights) - f1(fails, baseline, weights)

    bounds = intervals(groups, {"f1": lead}, resamples=resamples, seed=seed, level=level)
    return {"f1": lead(np.ones(len(fails))), "interval": bounds["f1"]}


def paired_lead(one: Floats, other: Floats, weights: Floats, *, seed: int = 0) -> tuple[float, float]:
    """Compute the mean loss of the first minus that of the second, and the standard error of this lead.

    Both are of the same rows, passed as sums by group: the losses of each, and the row weights.

    >>> lead, error = paired_lead(np.array([3.0, 5.0]), np.array([2.0, 4.0]), np.array([10.0, 10.0]))
    >>> round(lead, 3), round(error, 3)
    (0.1, 0.0)
    """
    rows = np.arange(len(weights), dtype=np.int64)
    gain = one - other
    drawn = [_dot(times, gain) / _dot(times, weights) for times in _resample(rows, RESAMPLES, seed)]
    return float(gain.sum() / weights.sum()), float(np.std(drawn, ddof=1))


def _dot(left: Floats, right: Floats) -> float:
    return float(np.einsum("i,i", left, right))  # not `@`: see `metrics.py`


def _resample(groups: Groups, resamples: int, seed: int) -> Iterator[Floats]:
    """Yield the row weights of each resample."""
    random = np.random.default_rng(seed)
    count = int(groups.max()) + 1
    for _ in range(resamples):
        times = np.bincount(random.integers(0, count, count), minlength=count)
        yield times[groups].astype(np.float64)


def _interval(drawn: Floats, level: float) -> list[float] | None:
    defined = np.isfinite(drawn)
    if 2 * defined.sum() < len(drawn):
        return None
    low, high = np.quantile(drawn[defined], [(1 - level) / 2, (1 + level) / 2])
    return [float(low), float(high)]
