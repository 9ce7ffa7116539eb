"""Measures of predictions: one definition of each, for every table, figure and interval.

A job gets an alarm where ``p >= threshold``. A ratio of 0 / 0 is 0: without any alarm the precision is 0,
without any failure the recall is 0. Measures of ranking are undefined with one class only, and then `None`.

All measures take row weights, because a bootstrap repeats rows that way without copying them.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Alarms = NDArray[np.bool_]

ECE_BINS = 15  # of equal width, as in Guo et al. 2017
_SMALLEST = 1e-15  # bounds the log loss of a wrong probability of 0 or 1, which would be infinite


class ScoredPredictions:
    """Predictions with their outcomes, sorted once, to be measured under any weights.

    >>> scored = ScoredPredictions(np.array([0.0, 1.0, 0.0, 1.0]), np.array([0.1, 0.4, 0.4, 0.8]))
    >>> scored.roc_auc(), round(scored.pr_auc(), 3)
    (0.875, 0.833)
    """

    def __init__(self, fails: Floats, p: Floats) -> None:
        self.fails = np.asarray(fails, np.float64)
        self.p = np.asarray(p, np.float64)
        self._ones = np.ones(len(self.fails))

    @cached_property
    def _order(self) -> NDArray[np.intp]:
        return np.argsort(-self.p, kind="stable")

    @cached_property
    def _failed(self) -> Floats:
        return self.fails[self._order]

    @cached_property
    def _ends(self) -> NDArray[np.intp]:
        """Find where in that order each run of equal predictions ends: no threshold separates them."""
        p = self.p[self._order]
        return np.flatnonzero(np.append(p[1:] != p[:-1], True))

    def _counts(self, weights: Floats | None) -> tuple[Floats, Floats]:
        """Count true and false alarms at every threshold that makes a difference, the highest first."""
        weights = (self._ones if weights is None else weights)[self._order]
        caught = weights * self._failed
        return np.cumsum(caught)[self._ends], np.cumsum(weights - caught)[self._ends]

    def roc_auc(self, weights: Floats | None = None) -> float:
        """Compute the probability that a failure is ranked above a job that completed, ties counting half."""
        true, false = self._counts(weights)
        if not true[-1] * false[-1]:
            return np.nan
        # The jobs that completed and are ranked below are the false alarms still to come.
        below = 2 * false[-1] - false
        below[1:] -= false[:-1]
        area = _dot(_steps(true), below) / 2
        return float(area / (true[-1] * false[-1]))

    def pr_auc(self, weights: Floats | None = None) -> float:
        """Compute the average precision: the mean of the precision at which each failure is caught."""
        true, false = self._counts(weights)
        if not true[-1] * false[-1]:
            return np.nan
        return _dot(_steps(true), _ratio(true, true + false)) / float(true[-1])

    def brier(self, weights: Floats | None = None) -> float:
        """Compute the Brier score: the mean square of the difference between p and the outcome."""
        return float(np.average((self.p - self.fails) ** 2, weights=weights))

    def log_loss(self, weights: Floats | None = None) -> float:
        """Compute the mean log loss, in nats."""
        return float(np.average(self._log_losses, weights=weights))

    @cached_property
    def _log_losses(self) -> Floats:
        return log_losses(self.fails, self.p)

    @cached_property
    def _bins(self) -> NDArray[np.intp]:
        return np.minimum((self.p * ECE_BINS).astype(np.intp), ECE_BINS - 1)

    def ece(self, weights: Floats | None = None) -> float:
        """Compute the expected calibration error: mean |failure rate - mean p| of 15 bins of equal width."""
        weights = self._ones if weights is None else weights
        gaps = np.bincount(self._bins, weights * (self.fails - self.p), ECE_BINS)
        return float(np.abs(gaps).sum() / weights.sum())

    def curve(self) -> tuple[Floats, Floats, Floats]:
        """Return every threshold that makes a difference, the highest first, with its true and all alarms."""
        true, false = self._counts(None)
        return self.p[self._order][self._ends], true, true + false


def log_losses(fails: Floats, p: Floats) -> Floats:
    """Compute the log loss of each row."""
    p_of_outcome = np.where(fails > 0, p, 1 - p)
    return np.asarray(-np.log(np.clip(p_of_outcome, _SMALLEST, 1.0)))


def ranking(fails: Floats, p: Floats) -> dict[str, Any]:
    """Compute the measures that do not depend on a threshold.

    >>> ranking(np.array([0.0, 0.0]), np.array([0.5, 0.25]))["roc_auc"] is None
    True
    """
    scored = ScoredPredictions(fails, p)
    return {
        "n": len(scored.fails),
        "base_rate": finite_or_none(scored.fails.mean()),
        "roc_auc": finite_or_none(scored.roc_auc()),
        "pr_auc": finite_or_none(scored.pr_auc()),
        "brier": finite_or_none(scored.brier()),
        "ece": finite_or_none(scored.ece()),
        "log_loss": finite_or_none(scored.log_loss()),
    }


def at_threshold(fails: Floats, alarms: Alarms) -> dict[str, Any]:
    """Compute the measures of alarms; `completed` has the same for the jobs that completed.

    >>> at_threshold(np.array([1.0, 1.0, 0.0, 0.0]), np.array([True, False, False, False]))["f1"]
    0.6666666666666666
    """
    failed, alarms = np.asarray(fails) > 0, np.asarray(alarms, np.bool_)
    tp, fp = int((failed & alarms).sum()), int((~failed & alarms).sum())
    fn, tn = int((failed & ~alarms).sum()), int((~failed & ~alarms).sum())
    return {
        "accuracy": (tp + tn) / max(len(failed), 1),
        **_class(tp, fp, fn),
        "confusion": {"tp": tp, "fp": fp, "fn": fn, "tn": tn},
        "completed": _class(tn, fn, fp),
    }


def weighted_at_threshold(fails: Floats, alarms: Alarms, weights: Floats) -> dict[str, float]:
    """Compute accuracy, and precision, recall and F1 of the failures, for weighted rows.

    >>> figures = weighted_at_threshold(np.array([1.0, 0.0]), np.array([True, True]), np.array([3.0, 1.0]))
    >>> figures["precision"], figures["accuracy"]
    (0.75, 0.75)
    """
    failed, alarmed = np.asarray(fails, np.float64), np.asarray(alarms, np.float64)
    total, caught = float(weights.sum()), _dot(weights * failed, alarmed)
    alarm_weight, failures = _dot(weights, alarmed), _dot(weights, failed)
    return {
        "accuracy": (total - alarm_weight - failures + 2 * caught) / total if total else 0.0,
        "precision": caught / alarm_weight if alarm_weight else 0.0,
        "recall": caught / failures if failures else 0.0,
        "f1": 2 * caught / (alarm_weight + failures) if alarm_weight + failures else 0.0,
    }


def f1(fails: Floats, alarms: Alarms, weights: Floats | None = None) -> float:
    """Compute F1 of the failures, for weighted rows."""
    weights = np.ones(len(fails)) if weights is None else weights
    alarmed = alarms.astype(np.float64)
    total = _dot(weights, alarmed + fails)
    return 2 * _dot(weights * fails, alarmed) / total if total else 0.0


def calibration_bins(fails: Floats, p: Floats) -> list[dict[str, Any]]:
    """List the bins of the ECE that have rows: the mean probability and the failure rate of each.

    >>> calibration_bins(np.array([0.0, 1.0]), np.array([0.5, 0.5]))
    [{'low': 0.4666666666666667, 'high': 0.5333333333333333, 'n': 2, 'mean_p': 0.5, 'failed': 0.5}]
    """
    scored = ScoredPredictions(fails, p)
    return [
        {
            "low": place / ECE_BINS,
            "high": (place + 1) / ECE_BINS,
            "n": int(inside.sum()),
            "mean_p": float(scored.p[inside].mean()),
            "failed": float(scored.fails[inside].mean()),
        }
        for place in range(ECE_BINS)
        if (inside := scored._bins == place).any()
    ]


def finite_or_none(value: float) -> float | None:
    """Return a number for JSON, which has no NaN."""
    return float(value) if np.isfinite(value) else None


def _class(hits: int, false: int, missed: int) -> dict[str, float]:
    return {
        "precision": hits / max(hits + false, 1),
        "recall": hits / max(hits + missed, 1),
        "f1": 2 * hits / max(2 * hits + false + missed, 1),
    }


def _ratio(part: Floats, whole: Floats) -> Floats:
    return np.divide(part, whole, out=np.zeros_like(whole), where=whole > 0)


def _steps(cumulated: Floats) -> Floats:
    steps = cumulated.copy()
    steps[1:] -= cumulated[:-1]
    return steps


def _dot(left: Floats, right: Floats) -> float:
    # Not `@`: BLAS uses all cores for it, which on a busy machine takes a thousand times as long.
    return float(np.einsum("i,i", left, right))
