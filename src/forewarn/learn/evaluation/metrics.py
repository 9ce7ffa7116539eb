"""How good predictions are. One definition of each measure, for every table, figure and interval.

An alarm is given where ``p >= threshold``. Where a ratio is 0 / 0 it is 0: no alarm at all has precision 0,
no failure at all has recall 0. Measures of ranking are undefined with one class only, and then `None`.

All measures take weights by row, because that is how a bootstrap repeats rows without copying them.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Alarms = NDArray[np.bool_]

ECE_BINS = 15  # of equal width, as in Guo et al. 2017
_SMALLEST = 1e-15  # a probability of 0 or 1 that was wrong costs this much surprise, not infinity


class ScoredPredictions:
    """Predictions beside what came true, put in order once, then measured under any weights.

    >>> judged = ScoredPredictions(np.array([0.0, 1.0, 0.0, 1.0]), np.array([0.1, 0.4, 0.4, 0.8]))
    >>> judged.roc_auc(), round(judged.pr_auc(), 3)
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
        """Where in that order each run of equal predictions ends: no threshold can part them."""
        p = self.p[self._order]
        return np.flatnonzero(np.append(p[1:] != p[:-1], True))

    def _counts(self, weights: Floats | None) -> tuple[Floats, Floats]:
        """True and false alarms at every threshold that makes a difference, the highest first."""
        weights = (self._ones if weights is None else weights)[self._order]
        caught = weights * self._failed
        return np.cumsum(caught)[self._ends], np.cumsum(weights - caught)[self._ends]

    def roc_auc(self, weights: Floats | None = None) -> float:
        """The chance that a failure is ranked above a job that ended well, ties counting half."""
        true, false = self._counts(weights)
        if not true[-1] * false[-1]:
            return np.nan
        # Of those that ended well, as many are ranked below as false alarms are still to come.
        below = 2 * false[-1] - false
        below[1:] -= false[:-1]
        area = _dot(_steps(true), below) / 2
        return float(area / (true[-1] * false[-1]))

    def pr_auc(self, weights: Floats | None = None) -> float:
        """Average precision: the mean of the precision at which each failure is caught."""
        true, false = self._counts(weights)
        if not true[-1] * false[-1]:
            return np.nan
        return _dot(_steps(true), _ratio(true, true + false)) / float(true[-1])

    def brier(self, weights: Floats | None = None) -> float:
        """The mean square of p less the outcome."""
        return float(np.average((self.p - self.fails) ** 2, weights=weights))

    def log_loss(self, weights: Floats | None = None) -> float:
        """The mean surprise, in nats."""
        return float(np.average(self._surprise, weights=weights))

    @cached_property
    def _surprise(self) -> Floats:
        return surprise(self.fails, self.p)

    @cached_property
    def _bins(self) -> NDArray[np.intp]:
        return np.minimum((self.p * ECE_BINS).astype(np.intp), ECE_BINS - 1)

    def ece(self, weights: Floats | None = None) -> float:
        """Expected calibration error: |failure rate - mean p| in 15 bins of equal width, by their rows."""
        weights = self._ones if weights is None else weights
        gaps = np.bincount(self._bins, weights * (self.fails - self.p), ECE_BINS)
        return float(np.abs(gaps).sum() / weights.sum())

    def curve(self) -> tuple[Floats, Floats, Floats]:
        """Every threshold that makes a difference, the highest first, with its true and all its alarms."""
        true, false = self._counts(None)
        return self.p[self._order][self._ends], true, true + false


def surprise(fails: Floats, p: Floats) -> Floats:
    """Each row's log loss."""
    of_outcome = np.where(fails > 0, p, 1 - p)
    return np.asarray(-np.log(np.clip(of_outcome, _SMALLEST, 1.0)))


def ranking(fails: Floats, p: Floats) -> dict[str, Any]:
    """What does not depend on a threshold.

    >>> ranking(np.array([0.0, 0.0]), np.array([0.5, 0.25]))["roc_auc"] is None
    True
    """
    judged = ScoredPredictions(fails, p)
    return {
        "n": len(judged.fails),
        "base_rate": defined(judged.fails.mean()),
        "roc_auc": defined(judged.roc_auc()),
        "pr_auc": defined(judged.pr_auc()),
        "brier": defined(judged.brier()),
        "ece": defined(judged.ece()),
        "log_loss": defined(judged.log_loss()),
    }


def at_threshold(fails: Floats, alarms: Alarms) -> dict[str, Any]:
    """What the alarms were worth; `completed` has the same measures for the jobs that ended well.

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
    """Accuracy, precision, recall and F1 of the failures, of weighted rows.

    >>> told = weighted_at_threshold(np.array([1.0, 0.0]), np.array([True, True]), np.array([3.0, 1.0]))
    >>> told["precision"], told["accuracy"]
    (0.75, 0.75)
    """
    failed, given = np.asarray(fails, np.float64), np.asarray(alarms, np.float64)
    total, caught = float(weights.sum()), _dot(weights * failed, given)
    warned, failures = _dot(weights, given), _dot(weights, failed)
    return {
        "accuracy": (total - warned - failures + 2 * caught) / total if total else 0.0,
        "precision": caught / warned if warned else 0.0,
        "recall": caught / failures if failures else 0.0,
        "f1": 2 * caught / (warned + failures) if warned + failures else 0.0,
    }


def f1(fails: Floats, alarms: Alarms, weights: Floats | None = None) -> float:
    """F1 of the failures, of weighted rows."""
    weights = np.ones(len(fails)) if weights is None else weights
    given = alarms.astype(np.float64)
    whole = _dot(weights, given + fails)
    return 2 * _dot(weights * fails, given) / whole if whole else 0.0


def calibration_bins(fails: Floats, p: Floats) -> list[dict[str, Any]]:
    """The bins of the ECE that have rows: what was said in each, and what came true.

    >>> calibration_bins(np.array([0.0, 1.0]), np.array([0.5, 0.5]))
    [{'low': 0.4666666666666667, 'high': 0.5333333333333333, 'n': 2, 'mean_p': 0.5, 'failed': 0.5}]
    """
    judged = ScoredPredictions(fails, p)
    return [
        {
            "low": place / ECE_BINS,
            "high": (place + 1) / ECE_BINS,
            "n": int(inside.sum()),
            "mean_p": float(judged.p[inside].mean()),
            "failed": float(judged.fails[inside].mean()),
        }
        for place in range(ECE_BINS)
        if (inside := judged._bins == place).any()
    ]


def defined(value: float) -> float | None:
    """A number for JSON, which has no NaN."""
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
    # Not `@`: BLAS wakes all cores for it, which on a busy machine takes a thousand times as long.
    return float(np.einsum("i,i", left, right))
