"""How good a model's predictions are on jobs it has not seen: everything a report says of them.

The result is plain JSON. Where a measure is undefined it is `None`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from forewarn.errors import LearningError, NotEnoughError
from forewarn.learn.data.table import JobTable
from forewarn.learn.evaluation import bootstrap
from forewarn.learn.evaluation.baselines import baselines, best_baseline
from forewarn.learn.evaluation.cause_figures import by_cause
from forewarn.learn.evaluation.decisions import by_decision
from forewarn.learn.evaluation.hours import by_hours
from forewarn.learn.evaluation.metrics import (
    Alarms,
    Floats,
    ScoredPredictions,
    at_threshold,
    calibration_bins,
    f1,
    ranking,
)

CURVE_POINTS = 200
CONFIDENCE_BINS = 40
PARTITIONS = 10  # the largest; the others are taken together
ACTIVITIES = ("new", "infrequent", "frequent")

Rows = NDArray[np.int64]


def evaluate(
    table: JobTable,
    rows: Rows,
    p: Floats,
    threshold: float | Floats,
    *,
    train_rows: Rows,
    for_f1: float | None = None,
    to_beat: Iterable[str] | None = None,
    outcomes: Mapping[str, Floats] | None = None,
    hours_lost: Floats | None = None,
    seed: int = 0,
    resamples: int = bootstrap.RESAMPLES,
) -> dict[str, Any]:
    """Judge probabilities of failure of some jobs, and the alarms they give at a threshold.

    The threshold may differ from job to job, as one that follows recent predictions does. The baselines
    know what `train_rows` tell, and the outcomes that were known at each job's moment. A threshold that is
    not for F1 (few alarms, but sure ones) would lose against them by F1: then `for_f1` is the one that is,
    and the lead over the best of them is taken there.

    Parameters
    ----------
    to_beat
        The rules to beat, by default all: a model without history cannot follow them.
    outcomes
        The probability of each way to fail, where a model tells them.
    hours_lost
        CPU hours that each job is expected to lose; by default P(failure) × hours asked.
    """
    if not len(rows):
        raise NotEnoughError(f"{table.cluster}: no jobs to judge the model on. Ingest more history")
    if not (table.labelled[rows].all() and np.isfinite(p).all() and len(p) == len(rows)):
        raise LearningError(
            f"{table.cluster}: each job to judge a model on needs a known outcome and one probability"
        )
    fails, about, p = table.fails[rows], table.about[rows], np.asarray(p, np.float64)
    alarms = p >= threshold
    rules = baselines(table, rows, train_rows)
    judged = {name: at_threshold(fails, given) for name, given in rules.items()}
    best = best_baseline(rules, fails, to_beat)
    figures = at_threshold(fails, alarms)
    leading = alarms if for_f1 is None else p >= for_f1
    return {
        "ranking": ranking(fails, p),
        "threshold": _threshold(threshold),
        "at_threshold": figures,
        "at_0_5": at_threshold(fails, p >= 0.5),
        "baselines": judged,
        "over_baseline": {
            "baseline": best,
            "f1": f1(fails, leading) - judged[best]["f1"],
            "threshold": _threshold(threshold)["value"] if for_f1 is None else for_f1,
        },
        "intervals": bootstrap.intervals(
            bootstrap.groups(about),
            _statistics(fails, p, alarms, leading, rules[best]),
            seed=seed,
            resamples=resamples,
        ),
        "by_decision": by_decision(about, fails, p, alarms, rules, seed=seed, resamples=resamples),
        "hours": by_hours(about, fails, p, hours_lost, rules, seed=seed, resamples=resamples),
        "causes": None if outcomes is None else by_cause(about, fails, outcomes),
        "curves": _curves(fails, p),
        "calibration": calibration_bins(fails, p),
        "confidence": _confidence(fails, p),
        "slices": {
            "partition": _by_partition(about["partition"], fails, p, alarms),
            "activity": _by_activity(about["activity"], fails, p, alarms),
        },
    }


def _threshold(threshold: float | Floats) -> dict[str, float]:
    """One number, and its range where it varies."""
    values = np.atleast_1d(threshold)
    return {"value": float(np.median(values)), "low": float(values.min()), "high": float(values.max())}


def _statistics(
    fails: Floats, p: Floats, alarms: Alarms, leading: Alarms, rule: Alarms
) -> dict[str, bootstrap.Statistic]:
    failed = fails > 0

    def share(part: Alarms, whole: Alarms) -> bootstrap.Statistic:
        return lambda weights: (
            float(weights[part].sum() / total) if (total := weights[whole].sum()) else np.nan
        )

    return {
        **bootstrap.statistics(fails, p, alarms),
        "precision": share(alarms & failed, alarms),
        "recall": share(alarms & failed, failed),
        "f1_over_baseline": lambda weights: f1(fails, leading, weights) - f1(fails, rule, weights),
    }


def _curves(fails: Floats, p: Floats) -> dict[str, dict[str, list[float]]]:
    thresholds, caught, alarms = ScoredPredictions(fails, p).curve()
    failures = max(fails.sum(), 1.0)
    recall, precision = caught / failures, caught / alarms
    false_alarm_rate = (alarms - caught) / max(len(fails) - fails.sum(), 1.0)
    begun_x, begun_y = (
        np.append(0.0, false_alarm_rate),
        np.append(0.0, recall),
    )  # the threshold that warns of none
    roc, pr = _thinned(begun_x, begun_y), _thinned(recall, precision)
    # The same at even steps of the threshold, up to the highest that still warns of a job.
    steps = np.linspace(0.0, p.max(), CURVE_POINTS // 2 + 1)
    at = np.searchsorted(-thresholds, -steps, side="right") - 1
    return {
        "roc": {"false_alarm_rate": _plain(begun_x[roc]), "recall": _plain(begun_y[roc])},
        "pr": {"recall": _plain(recall[pr]), "precision": _plain(precision[pr])},
        "by_threshold": {
            "threshold": _plain(steps),
            "precision": _plain(precision[at]),
            "recall": _plain(recall[at]),
            "f1": _plain(2 * caught[at] / (alarms[at] + failures)),
        },
    }


def _thinned(x: Floats, y: Floats, most: int = CURVE_POINTS) -> NDArray[np.intp]:
    """Places of the points that keep a curve's shape: again and again the one farthest from what is drawn.

    >>> _thinned(np.arange(9.0), np.array([0, 0, 0, 0, 9.0, 9, 9, 9, 9]), most=4).tolist()
    [0, 3, 4, 8]
    """
    kept = {0, len(x) - 1}
    spans = [_farthest(x, y, 0, len(x) - 1)]
    heapify(spans)
    while spans and len(kept) < most and spans[0][0] < 0:
        _, place, first, last = heappop(spans)
        kept.add(place)
        heappush(spans, _farthest(x, y, first, place))
        heappush(spans, _farthest(x, y, place, last))
    return np.array(sorted(kept))


def _farthest(x: Floats, y: Floats, first: int, last: int) -> tuple[float, int, int, int]:
    """Minus the distance, and the place, of the point farthest from the line between two."""
    if last - first < 2:
        return 0.0, first, first, last
    dx, dy = x[last] - x[first], y[last] - y[first]
    inside = slice(first + 1, last)
    away_x, away_y = x[inside] - x[first], y[inside] - y[first]
    length = np.hypot(dx, dy)
    far = np.abs(dx * away_y - dy * away_x) / length if length else np.hypot(away_x, away_y)
    place = int(np.argmax(far))
    return -float(far[place]), first + 1 + place, first, last


def _confidence(fails: Floats, p: Floats) -> dict[str, list[float] | list[int]]:
    """How many jobs of each class were given which probability."""
    edges = np.linspace(0, 1, CONFIDENCE_BINS + 1)
    return {
        "edges": _plain(edges),
        "failed": np.histogram(p[fails > 0], edges)[0].tolist(),
        "completed": np.histogram(p[fails == 0], edges)[0].tolist(),
    }


def _by_partition(partition: pl.Series, fails: Floats, p: Floats, alarms: Alarms) -> list[dict[str, Any]]:
    counted = partition.value_counts(name="n").sort("n", partition.name, descending=[True, False])
    names = counted[partition.name].to_list()
    # One that would be alone in "the others" can as well be named.
    named = names if len(names) <= PARTITIONS + 1 else names[:PARTITIONS]
    made = [
        {"name": name, **_figures(partition.eq_missing(name).to_numpy(), fails, p, alarms)} for name in named
    ]
    if rest := names[len(named) :]:
        together = partition.is_in(rest, nulls_equal=True).to_numpy()
        made.append({"others": len(rest), **_figures(together, fails, p, alarms)})
    return made


def _by_activity(activity: pl.Series, fails: Floats, p: Floats, alarms: Alarms) -> list[dict[str, Any]]:
    return [
        {"name": name, **_figures(inside, fails, p, alarms)}
        for name in ACTIVITIES
        if (inside := (activity == name).to_numpy()).any()
    ]


def _figures(inside: Alarms, fails: Floats, p: Floats, alarms: Alarms) -> dict[str, Any]:
    ranked: Mapping[str, Any] = ranking(fails[inside], p[inside])
    judged = at_threshold(fails[inside], alarms[inside])
    return {
        "n": ranked["n"],
        "base_rate": ranked["base_rate"],
        "roc_auc": ranked["roc_auc"],
        "alarms": int(alarms[inside].sum()),
        "precision": judged["precision"],
        "recall": judged["recall"],
        "f1": judged["f1"],
    }


def _plain(values: Floats) -> list[float]:
    # Six digits draw any curve, and keep the JSON readable.
    return [float(value) for value in np.round(values, 6)]
