"""Thresholds: the probability from which a job gets an alarm, chosen by one of five rules.

    f1              highest F1 on validation
    expected-f1     highest expected F1 of recent predictions; needs calibration, but no outcomes
    precision=0.8   the lowest threshold at which this share of alarms was right
    recall=0.6      the highest threshold at which this share of failures was caught
    cost=20         least node hours lost: 20 for a false alarm, its own for a missed failure

A job gets an alarm where ``p >= threshold``; with a threshold of 1 none does, as no calibrated probability is
1.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from forewarn.errors import NotEnoughError, UsageError
from forewarn.formatting import count, measure
from forewarn.learn.evaluation.metrics import Floats, ScoredPredictions, at_threshold

RECENT = 6_000  # predictions that the rule without outcomes uses
NEVER = 1.0
# F1 is flat near its maximum, and where exactly it peaks on one block is chance: a block of a modern log
# holds few decisions. Of the thresholds this close to the best, the one with the highest expected F1 of the
# predictions is chosen. On the 20% of jobs after the block its F1 was .67, .66, .50 instead of .63, .54, .50
# with a plateau of .02 and equal weights for all jobs (Graham cut after 100, 80, 60%), and the same on CTC.
PLATEAU = 0.1
FEWEST_ALARMS = 10  # from which the precision of a threshold is trusted
_RULES = "f1, expected-f1, precision=0.8, recall=0.6, cost=20"


class NotReachedWarning(UserWarning):
    """A warning that no threshold reaches what was requested, so that the nearest one is used."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """A threshold, the rule that chose it, and its figures on the jobs it was chosen by."""

    rule: str
    value: float
    evidence: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return what the bundle stores."""
        return {"rule": self.rule, "value": self.value, "evidence": dict(self.evidence)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Read what the bundle stores."""
        return cls(value["rule"], float(value["value"]), value["evidence"])


def parse_rule(rule: str) -> tuple[str, float]:
    """Split a rule into its name and its number (0 for a rule without one); raise `UsageError` for others.

    >>> parse_rule("precision=0.8")
    ('precision', 0.8)
    """
    name, separator, number = rule.strip().partition("=")
    if name in ("f1", "expected-f1") and not separator:
        return name, 0.0
    if name not in ("precision", "recall", "cost"):
        raise UsageError(f"unknown threshold rule {rule!r}; use one of {_RULES}")
    try:
        value = float(number)
    except ValueError:
        raise UsageError(f"threshold rule {rule!r} needs a number, as in `{name}=0.8`") from None
    if name == "cost" and not 0 < value < np.inf:
        raise UsageError(
            f"threshold rule {rule!r}: the cost of a false alarm must be a positive number of node hours"
        )
    if name != "cost" and not 0 < value <= 1:
        raise UsageError(f"threshold rule {rule!r}: {name} must be above 0 and at most 1")
    return name, value


def threshold_for_f1(thresholds: Mapping[str, Threshold]) -> float | None:
    """Return the threshold for comparisons by F1; None where the one in force is for F1 already."""
    in_force = next(iter(thresholds))
    return None if parse_rule(in_force)[0] in ("f1", "expected-f1") else thresholds["f1"].value


def choose_threshold(
    rule: str,
    p: Floats,
    fails: Floats | None = None,
    node_hours: Floats | None = None,
    weights: Floats | None = None,
) -> Threshold:
    """Choose the threshold by a rule, from calibrated predictions in order of time.

    Parameters
    ----------
    fails
        The outcomes; only `expected-f1` needs none.
    node_hours
        The node hours that each job used, for `cost`.
    weights
        The weight of each job in the rules for F1, by default equal: a bulk of equal jobs is few decisions.
        Shares of alarms and node hours are of unweighted jobs.
    """
    name, number = parse_rule(rule)
    p = np.asarray(p, np.float64)
    weights = np.ones(len(p)) if weights is None else weights
    if not len(p):
        raise NotEnoughError(f"threshold rule {rule!r}: there are no predictions to choose it from")
    if name == "expected-f1":
        recent = fails[-RECENT:] if fails is not None else None
        return _expected_f1(rule, p[-RECENT:], recent, weights[-RECENT:])
    if fails is None:
        raise UsageError(f"threshold rule {rule!r} needs outcomes; only `expected-f1` does not")
    fails = np.asarray(fails, np.float64)
    if not fails.any():
        raise NotEnoughError(
            f"threshold rule {rule!r}: none of the {count(len(fails), 'job')} to choose it from failed"
        )
    curve = _Curve(fails, p)
    if name == "cost":
        if node_hours is None:
            raise UsageError(f"threshold rule {rule!r} needs the node hours of each job")
        return _least_cost(rule, number, curve, np.asarray(node_hours, np.float64))
    if name == "f1":
        value, more = _highest_f1(p, fails, weights)
    else:
        value, more = _BY_SHARES[name](curve, number)
    return Threshold(rule, value, curve.evidence(value) | more)


def rolling_expected_f1(
    p: Floats,
    *,
    weights: Floats | None = None,
    window: int = RECENT,
    every: int = 100,
    start: float = 0.5,
) -> Floats:
    """Choose a threshold for each prediction, by the expected F1 of up to `window` predictions before it.

    It changes after every `every` predictions. The first of them get `start`.
    """
    p = np.asarray(p, np.float64)
    weights = np.ones(len(p)) if weights is None else weights
    thresholds = np.full(len(p), start)
    for begin in range(every, len(p), every):
        recent = slice(max(begin - window, 0), begin)
        thresholds[begin : begin + every] = _best_expected(p[recent], weights[recent])[0]
    return thresholds


class _Curve:
    """Precision and recall at every threshold that makes a difference, the highest first."""

    def __init__(self, fails: Floats, p: Floats) -> None:
        self.fails, self.p = fails, p
        self.thresholds, self.caught, self.alarms = ScoredPredictions(fails, p).curve()
        self.precision = self.caught / self.alarms
        self.recall = self.caught / self.caught[-1]

    def evidence(self, value: float) -> dict[str, Any]:
        """Return the figures at a threshold."""
        figures = at_threshold(self.fails, self.p >= value)
        return {
            "rows": len(self.fails),
            "failed": int(self.fails.sum()),
            "alarms": int((self.p >= value).sum()),
            **{name: figures[name] for name in ("precision", "recall", "f1")},
        }


def _highest_f1(p: Floats, fails: Floats, weights: Floats) -> tuple[float, dict[str, Any]]:
    thresholds, observed = _f1_curve(p, fails, weights)
    _, expected = _f1_curve(p, p, weights)
    best = observed.max()
    place = np.argmax(np.where(observed >= best - PLATEAU, expected, -1.0))
    return float(thresholds[place]), {"best_f1": float(best)}


def _f1_curve(p: Floats, fails: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Compute the F1 of every threshold that makes a difference, the highest first."""
    order = np.argsort(-p, kind="stable")
    ends = np.flatnonzero(np.append(p[order][1:] != p[order][:-1], True))
    caught, alarms = (np.cumsum(part[order])[ends] for part in (weights * fails, weights))
    return p[order][ends], 2 * caught / (alarms + caught[-1])


def _at_precision(curve: _Curve, least: float) -> tuple[float, dict[str, Any]]:
    """Choose the lowest threshold with this precision, because it catches most failures."""
    enough = curve.alarms >= min(FEWEST_ALARMS, curve.alarms[-1])
    met = np.flatnonzero(enough & (curve.precision >= least))
    if len(met):
        return float(curve.thresholds[met[-1]]), {"met": True}
    best = int(np.argmax(np.where(enough, curve.precision, -1.0)))
    warning = (
        f"no threshold has a precision of {least:g} on validation; the best reached, "
        f"{measure(float(curve.precision[best]))}, is used"
    )
    warnings.warn(warning, NotReachedWarning, stacklevel=3)
    return float(curve.thresholds[best]), {"met": False, "warning": warning}


def _at_recall(curve: _Curve, least: float) -> tuple[float, dict[str, Any]]:
    """Choose the highest threshold with this recall, because it gives the fewest false alarms.

    There is always one: the lowest threshold catches all failures.
    """
    return float(curve.thresholds[np.argmax(curve.recall >= least)]), {"met": True}


_BY_SHARES: Mapping[str, Callable[[_Curve, float], tuple[float, dict[str, Any]]]] = {
    "precision": _at_precision,
    "recall": _at_recall,
}


def _least_cost(rule: str, false_alarm_cost: float, curve: _Curve, node_hours: Floats) -> Threshold:
    wasted = np.where(curve.fails > 0, np.nan_to_num(node_hours), 0.0)
    order = np.argsort(-curve.p, kind="stable")
    saved = np.cumsum(wasted[order])[curve.alarms.astype(np.intp) - 1]
    cost = wasted.sum() - saved + false_alarm_cost * (curve.alarms - curve.caught)
    best = int(np.argmin(cost))
    without_alarms = float(wasted.sum())
    alarms_pay = cost[best] < without_alarms
    value = float(curve.thresholds[best]) if alarms_pay else NEVER
    costs = {
        "cost": float(cost[best]) if alarms_pay else without_alarms,
        "cost_without_alarms": without_alarms,
    }
    return Threshold(rule, value, curve.evidence(value) | costs)


def _expected_f1(rule: str, p: Floats, fails: Floats | None, weights: Floats) -> Threshold:
    value, expected = _best_expected(p, weights)
    evidence: dict[str, Any] = {"rows": len(p), "alarms": int((p >= value).sum()), "expected_f1": expected}
    if fails is not None:
        evidence["f1"] = at_threshold(fails, p >= value)["f1"]
    return Threshold(rule, value, evidence)


def _best_expected(p: Floats, weights: Floats | None = None) -> tuple[float, float]:
    """Find the threshold with the highest expected F1, and that F1: each job fails with its probability."""
    thresholds, expected = _f1_curve(p, p, np.ones(len(p)) if weights is None else weights)
    best = int(np.argmax(expected))
    return float(thresholds[best]), float(expected[best])
