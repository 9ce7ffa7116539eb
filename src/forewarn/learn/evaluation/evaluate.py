"""The evaluation of a model's predictions on jobs it has not seen: all figures of a report.

The result is plain JSON. A measure that is undefined is `None`.
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
from forewarn.learn.evaluation.baselines import baseline_alarms, best_rule
from forewarn.learn.evaluation.cause_figures import evaluate_by_cause
from forewarn.learn.evaluation.decisions import evaluate_by_decision
from forewarn.learn.evaluation.hours import evaluate_by_hours
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
PARTITIONS = 10  # the largest; the others are combined
ACTIVITIES = ("new", "infrequent", "frequent")

Ints = NDArray[np.int64]


def evaluate(
    table: JobTable,
    rows: Ints,
    p: Floats,
    threshold: float | Floats,
    *,
    train_rows: Ints,
    for_f1: float | None = None,
    to_beat: Iterable[str] | None = None,
    outcomes: Mapping[str, Floats] | None = None,
    hours_lost: Floats | None = None,
    seed: int = 0,
    resamples: int = bootstrap.RESAMPLES,
) -> dict[str, Any]:
    """Evaluate probabilities of failure of some jobs, and the alarms they give at a threshold.

    The threshold may differ from job to job, as one that follows recent predictions does. The baselines use
    the majority of `train_rows`, and the outcomes that were known at each job's moment. A threshold that is
    not for F1 (few alarms with a high precision) would lose to them by F1: then `for_f1` is the one that is,
    and the lead over the best of them is computed there.

    Parameters
    ----------
    to_beat
        The rules to beat, by default all: a model without history cannot follow some of them.
    outcomes
        The probability of each way to fail, where a model predicts them.
    hours_lost
        CPU hours that each job is expected to lose; by default P(failure) × requested hours.
    """
    if not len(rows):
        raise NotEnoughError(f"{table.cluster}: no jobs to evaluate the model on. Ingest more history")
    if not (table.labelled[rows].all() and np.isfinite(p).all() and len(p) == len(rows)):
        raise LearningError(
            f"{table.cluster}: each job to evaluate a model on needs a known outcome and one probability"
        )
    fails, about, p = table.fails[rows], table.about[rows], np.asarray(p, np.float64)
    alarms = p >= threshold
    rules = baseline_alarms(table, rows, train_rows)
    baselines = {name: at_threshold(fails, rule_alarms) for name, rule_alarms in rules.items()}
    best = best_rule(rules, fails, to_beat)
    f1_alarms = alarms if for_f1 is None else p >= for_f1
    return {
        "ranking": ranking(fails, p),
        "threshold": _threshold(threshold),
        "at_threshold": at_threshold(fails, alarms),
        "at_0_5": at_threshold(fails, p >= 0.5),
        "baselines": baselines,
        "over_baseline": {
            "baseline": best,
            "f1": f1(fails, f1_alarms) - baselines[best]["f1"],
            "threshold": _threshold(threshold)["value"] if for_f1 is None else for_f1,
        },
        "intervals": bootstrap.intervals(
            bootstrap.groups(about),
            _statistics(fails, p, alarms, f1_alarms, rules[best]),
            seed=seed,
            resamples=resamples,
        ),
        "by_decision": evaluate_by_decision(about, fails, p, alarms, rules, seed=seed, resamples=resamples),
        "hours": evaluate_by_hours(about, fails, p, hours_lost, rules, seed=seed, resamples=resamples),
        "causes": None if outcomes is None else evaluate_by_cause(about, fails, outcomes),
        "curves": _curves(fails, p),
        "calibration": calibration_bins(fails, p),
        "confidence": _confidence(fails, p),
        "slices": {
            "partition": _by_partition(about["partition"], fails, p, alarms),
            "activity": _by_activity(about["activity"], fails, p, alarms),
        },
    }


def _threshold(threshold: float | Floats) -> dict[str, float]:
    """Return the median threshold, and its range where it varies."""
    values = np.atleast_1d(threshold)
    return {"value": float(np.median(values)), "low": float(values.min()), "high": float(values.max())}


def _statistics(
    fails: Floats, p: Floats, alarms: Alarms, f1_alarms: Alarms, rule_alarms: Alarms
) -> dict[str, bootstrap.Statistic]:
    """Return the statistics of the report, each a function of row weights."""
    failed = fails > 0

    def share(part: Alarms, whole: Alarms) -> bootstrap.Statistic:
        return lambda weights: (
            float(weights[part].sum() / total) if (total := weights[whole].sum()) else np.nan
        )

    return {
        **bootstrap.statistics(fails, p, alarms),
        "precision": share(alarms & failed, alarms),
        "recall": share(alarms & failed, failed),
        "f1_over_baseline": lambda weights: f1(fails, f1_alarms, weights) - f1(fails, rule_alarms, weights),
    }


def _curves(fails: Floats, p: Floats) -> dict[str, dict[str, list[float]]]:
    """Compute the ROC curve, the precision-recall curve, and precision, recall and F1 by threshold."""
    thresholds, caught, alarms = ScoredPredictions(fails, p).curve()
    failures = max(fails.sum(), 1.0)
    recall, precision = caught / failures, caught / alarms
    false_alarm_rate = (alarms - caught) / max(len(fails) - fails.sum(), 1.0)
    # The first point is the threshold that gives no alarm.
    roc_x, roc_y = np.append(0.0, false_alarm_rate), np.append(0.0, recall)
    roc, pr = _thin_out(roc_x, roc_y), _thin_out(recall, precision)
    # The same at even steps of the threshold, up to the highest that still gives an alarm.
    steps = np.linspace(0.0, p.max(), CURVE_POINTS // 2 + 1)
    places = np.searchsorted(-thresholds, -steps, side="right") - 1
    return {
        "roc": {"false_alarm_rate": _plain(roc_x[roc]), "recall": _plain(roc_y[roc])},
        "pr": {"recall": _plain(recall[pr]), "precision": _plain(precision[pr])},
        "by_threshold": {
            "threshold": _plain(steps),
            "precision": _plain(precision[places]),
            "recall": _plain(recall[places]),
            "f1": _plain(2 * caught[places] / (alarms[places] + failures)),
        },
    }


def _thin_out(x: Floats, y: Floats, most: int = CURVE_POINTS) -> NDArray[np.intp]:
    """Choose the points that preserve a curve's shape: repeatedly the one farthest from the line so far.

    >>> _thin_out(np.arange(9.0), np.array([0, 0, 0, 0, 9.0, 9, 9, 9, 9]), most=4).tolist()
    [0, 3, 4, 8]
    """
    chosen = {0, len(x) - 1}
    spans = [_farthest(x, y, 0, len(x) - 1)]
    heapify(spans)
    while spans and len(chosen) < most and spans[0][0] < 0:
        _, place, first, last = heappop(spans)
        chosen.add(place)
        heappush(spans, _farthest(x, y, first, place))
        heappush(spans, _farthest(x, y, place, last))
    return np.array(sorted(chosen))


def _farthest(x: Floats, y: Floats, first: int, last: int) -> tuple[float, int, int, int]:
    """Find the point farthest from the line between two: minus its distance, its place, and the two."""
    if last - first < 2:
        return 0.0, first, first, last
    dx, dy = x[last] - x[first], y[last] - y[first]
    inside = slice(first + 1, last)
    away_x, away_y = x[inside] - x[first], y[inside] - y[first]
    length = np.hypot(dx, dy)
    distance = np.abs(dx * away_y - dy * away_x) / length if length else np.hypot(away_x, away_y)
    place = int(np.argmax(distance))
    return -float(distance[place]), first + 1 + place, first, last


def _confidence(fails: Floats, p: Floats) -> dict[str, list[float] | list[int]]:
    """Count the jobs of each class by their probability."""
    edges = np.linspace(0, 1, CONFIDENCE_BINS + 1)
    return {
        "edges": _plain(edges),
        "failed": np.histogram(p[fails > 0], edges)[0].tolist(),
        "completed": np.histogram(p[fails == 0], edges)[0].tolist(),
    }


def _by_partition(partition: pl.Series, fails: Floats, p: Floats, alarms: Alarms) -> list[dict[str, Any]]:
    counted = partition.value_counts(name="n").sort("n", partition.name, descending=[True, False])
    names = counted[partition.name].to_list()
    # A partition that would be alone in "the others" is listed by its name.
    listed = names if len(names) <= PARTITIONS + 1 else names[:PARTITIONS]
    entries = [
        {"name": name, **_figures(partition.eq_missing(name).to_numpy(), fails, p, alarms)} for name in listed
    ]
    if others := names[len(listed) :]:
        inside = partition.is_in(others, nulls_equal=True).to_numpy()
        entries.append({"others": len(others), **_figures(inside, fails, p, alarms)})
    return entries


def _by_activity(activity: pl.Series, fails: Floats, p: Floats, alarms: Alarms) -> list[dict[str, Any]]:
    return [
        {"name": name, **_figures(inside, fails, p, alarms)}
        for name in ACTIVITIES
        if (inside := (activity == name).to_numpy()).any()
    ]


def _figures(inside: Alarms, fails: Floats, p: Floats, alarms: Alarms) -> dict[str, Any]:
    ranked: Mapping[str, Any] = ranking(fails[inside], p[inside])
    figures = at_threshold(fails[inside], alarms[inside])
    return {
        "n": ranked["n"],
        "base_rate": ranked["base_rate"],
        "roc_auc": ranked["roc_auc"],
        "alarms": int(alarms[inside].sum()),
        "precision": figures["precision"],
        "recall": figures["recall"],
        "f1": figures["f1"],
    }


def _plain(values: Floats) -> list[float]:
    # Six digits suffice to draw any curve, and keep the JSON readable.
    return [float(value) for value in np.round(values, 6)]
