"""From which probability on a job gets an alarm: five rules, each a short string.

    f1              highest F1 on validation
    expected-f1     highest F1 to be expected of recent predictions; needs calibration, but no outcomes
    precision=0.8   the lowest threshold at which this share of alarms was right
    recall=0.6      the highest threshold at which this share of failures was caught
    cost=20         least node hours lost: 20 for a false alarm, its own for a failure that was missed

An alarm is given where ``p >= threshold``; a threshold of 1 gives none, as no calibrated probability is 1.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from forewarn.errors import NotEnoughError, UsageError
from forewarn.learn.evaluation.metrics import Floats, ScoredPredictions, at_threshold

RECENT = 6_000  # predictions that the rule without outcomes looks at
NEVER = 1.0
# F1 is flat near its best, and where exactly it peaks on one block is chance: a block of a modern log holds
# few decisions. Of the thresholds this near to the best, the one with the highest F1 to be expected of the
# predictions is taken. On the 20 % after it that had an F1 of .67, .66, .50 instead of .63, .54, .50 with a
# plateau of .02 and each job counting alike (Graham cut after 100, 80, 60 %), and the same on CTC.
PLATEAU = 0.1
FEWEST_ALARMS = 10  # with which a share of right ones is taken for one
_RULES = "f1, expected-f1, precision=0.8, recall=0.6, cost=20"


class NotReachedWarning(UserWarning):
    """No threshold gives what was asked for; the nearest was taken."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """A threshold, the rule it follows, and what it gave where it was chosen."""

    rule: str
    value: float
    evidence: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """For the bundle."""
        return {"rule": self.rule, "value": self.value, "evidence": dict(self.evidence)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """From the bundle."""
        return cls(value["rule"], float(value["value"]), value["evidence"])


def parsed(rule: str) -> tuple[str, float]:
    """The name of a rule and its number (0 for a rule without one); a wrong rule is a `UsageError`.

    >>> parsed("precision=0.8")
    ('precision', 0.8)
    """
    name, given, number = rule.strip().partition("=")
    if name in ("f1", "expected-f1") and not given:
        return name, 0.0
    if name not in ("precision", "recall", "cost"):
        raise UsageError(f"no threshold rule {rule!r}; there are {_RULES}")
    try:
        value = float(number)
    except ValueError:
        raise UsageError(f"threshold rule {rule!r}: a number must follow, as in `{name}=0.8`") from None
    if name == "cost" and not 0 < value < np.inf:
        raise UsageError(
            f"threshold rule {rule!r}: the cost of a false alarm is a positive number of node hours"
        )
    if name != "cost" and not 0 < value <= 1:
        raise UsageError(f"threshold rule {rule!r}: {name} is a share above 0 and up to 1")
    return name, value


def threshold_for_f1(thresholds: Mapping[str, Threshold]) -> float | None:
    """The one by which a model is compared by F1, where the first, in force, is for something else."""
    in_force = next(iter(thresholds))
    return None if parsed(in_force)[0] in ("f1", "expected-f1") else thresholds["f1"].value


def choose(
    rule: str,
    p: Floats,
    fails: Floats | None = None,
    node_hours: Floats | None = None,
    weights: Floats | None = None,
) -> Threshold:
    """The threshold that a rule gives for calibrated predictions in order of time.

    Parameters
    ----------
    fails
        What became of them; only `expected-f1` does without.
    node_hours
        What each job used, for `cost`.
    weights
        How much each counts in the rules of F1, all alike where none are given: equal jobs sent at once are
        few decisions. A share of alarms, and node hours, are those of jobs as they are.
    """
    name, number = parsed(rule)
    p = np.asarray(p, np.float64)
    weights = np.ones(len(p)) if weights is None else weights
    if not len(p):
        raise NotEnoughError(f"threshold rule {rule!r}: there are no predictions to choose it by")
    if name == "expected-f1":
        recent = fails[-RECENT:] if fails is not None else None
        return _expected_f1(rule, p[-RECENT:], recent, weights[-RECENT:])
    if fails is None:
        raise UsageError(f"threshold rule {rule!r} needs outcomes; `expected-f1` is the one that does not")
    fails = np.asarray(fails, np.float64)
    if not fails.any():
        raise NotEnoughError(
            f"threshold rule {rule!r}: none of the {len(fails):,} jobs to choose it by failed"
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
    """A threshold for each prediction, by the expected F1 of up to `window` predictions before it.

    It is found anew after `every` predictions. The first of them get `start`.
    """
    p = np.asarray(p, np.float64)
    weights = np.ones(len(p)) if weights is None else weights
    made = np.full(len(p), start)
    for begin in range(every, len(p), every):
        recent = slice(max(begin - window, 0), begin)
        made[begin : begin + every] = _best_expected(p[recent], weights[recent])[0]
    return made


class _Curve:
    """What every threshold that makes a difference gives, the highest first."""

    def __init__(self, fails: Floats, p: Floats) -> None:
        self.fails, self.p = fails, p
        self.thresholds, self.caught, self.alarms = ScoredPredictions(fails, p).curve()
        self.precision = self.caught / self.alarms
        self.recall = self.caught / self.caught[-1]

    def evidence(self, value: float) -> dict[str, Any]:
        judged = at_threshold(self.fails, self.p >= value)
        return {
            "rows": len(self.fails),
            "failed": int(self.fails.sum()),
            "alarms": int((self.p >= value).sum()),
            **{name: judged[name] for name in ("precision", "recall", "f1")},
        }


def _highest_f1(p: Floats, fails: Floats, weights: Floats) -> tuple[float, dict[str, Any]]:
    thresholds, came = _f1_curve(p, fails, weights)
    _, expected = _f1_curve(p, p, weights)
    best = came.max()
    place = np.argmax(np.where(came >= best - PLATEAU, expected, -1.0))
    return float(thresholds[place]), {"best_f1": float(best)}


def _f1_curve(p: Floats, fails: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Every threshold that makes a difference, the highest first, and the F1 that it has."""
    order = np.argsort(-p, kind="stable")
    ends = np.flatnonzero(np.append(p[order][1:] != p[order][:-1], True))
    caught, alarms = (np.cumsum(part[order])[ends] for part in (weights * fails, weights))
    return p[order][ends], 2 * caught / (alarms + caught[-1])


def _at_precision(curve: _Curve, asked: float) -> tuple[float, dict[str, Any]]:
    """The lowest threshold, because it catches most."""
    enough = curve.alarms >= min(FEWEST_ALARMS, curve.alarms[-1])
    met = np.flatnonzero(enough & (curve.precision >= asked))
    if len(met):
        return float(curve.thresholds[met[-1]]), {"met": True}
    best = int(np.argmax(np.where(enough, curve.precision, -1.0)))
    warning = (
        f"no threshold has a precision of {asked:g} on validation; the best reached, "
        f"{curve.precision[best]:.3f}, is taken"
    )
    warnings.warn(warning, NotReachedWarning, stacklevel=3)
    return float(curve.thresholds[best]), {"met": False, "warning": warning}


def _at_recall(curve: _Curve, asked: float) -> tuple[float, dict[str, Any]]:
    """The highest threshold, because it gives fewest false alarms. That of all jobs catches all."""
    return float(curve.thresholds[np.argmax(curve.recall >= asked)]), {"met": True}


_BY_SHARES: Mapping[str, Callable[[_Curve, float], tuple[float, dict[str, Any]]]] = {
    "precision": _at_precision,
    "recall": _at_recall,
}


def _least_cost(rule: str, of_false_alarm: float, curve: _Curve, node_hours: Floats) -> Threshold:
    wasted = np.where(curve.fails > 0, np.nan_to_num(node_hours), 0.0)
    order = np.argsort(-curve.p, kind="stable")
    spared = np.cumsum(wasted[order])[curve.alarms.astype(np.intp) - 1]
    lost = wasted.sum() - spared + of_false_alarm * (curve.alarms - curve.caught)
    best = int(np.argmin(lost))
    without = float(wasted.sum())
    worth_it = lost[best] < without
    value = float(curve.thresholds[best]) if worth_it else NEVER
    costs = {"cost": float(lost[best]) if worth_it else without, "cost_without_alarms": without}
    return Threshold(rule, value, curve.evidence(value) | costs)


def _expected_f1(rule: str, p: Floats, fails: Floats | None, weights: Floats) -> Threshold:
    value, expected = _best_expected(p, weights)
    evidence: dict[str, Any] = {"rows": len(p), "alarms": int((p >= value).sum()), "expected_f1": expected}
    if fails is not None:
        evidence["f1"] = at_threshold(fails, p >= value)["f1"]
    return Threshold(rule, value, evidence)


def _best_expected(p: Floats, weights: Floats | None = None) -> tuple[float, float]:
    """The threshold with the highest expected F1, and that F1: each job fails with its probability."""
    thresholds, expected = _f1_curve(p, p, np.ones(len(p)) if weights is None else weights)
    best = int(np.argmax(expected))
    return float(thresholds[best]), float(expected[best])
