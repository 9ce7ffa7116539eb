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
from forewarn.learn.metrics import Floats, Judged, at_threshold

RECENT = 6_000  # predictions that the rule without outcomes looks at
NEVER = 1.0
# F1 is flat near its best, and where exactly it peaks on one block is chance. Of the thresholds this near to
# the best, the one is taken that is best when each outcome counts by this share as it came, else as it was
# predicted. On the next block that cost .0125 of F1 against hindsight instead of .0169 (five real logs).
PLATEAU, AS_IT_CAME = 0.02, 0.25
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


def choose(rule: str, p: Floats, fails: Floats | None = None, node_hours: Floats | None = None) -> Threshold:
    """The threshold that a rule gives for calibrated predictions in order of time.

    Parameters
    ----------
    fails
        What became of them; only `expected-f1` does without.
    node_hours
        What each job used, for `cost`.
    """
    name, number = parsed(rule)
    p = np.asarray(p, np.float64)
    if not len(p):
        raise NotEnoughError(f"threshold rule {rule!r}: there are no predictions to choose it by")
    if name == "expected-f1":
        return _expected_f1(rule, p[-RECENT:], fails[-RECENT:] if fails is not None else None)
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
    value, more = _BY_SHARES[name](curve, number)
    return Threshold(rule, value, curve.evidence(value) | more)


def rolling_expected_f1(p: Floats, *, window: int = RECENT, every: int = 100, start: float = 0.5) -> Floats:
    """A threshold for each prediction, by the expected F1 of up to `window` predictions before it.

    It is found anew after `every` predictions. The first of them get `start`.
    """
    p = np.asarray(p, np.float64)
    made = np.full(len(p), start)
    for begin in range(every, len(p), every):
        made[begin : begin + every] = _best_expected(p[max(begin - window, 0) : begin])[0]
    return made


class _Curve:
    """What every threshold that makes a difference gives, the highest first."""

    def __init__(self, fails: Floats, p: Floats) -> None:
        self.fails, self.p = fails, p
        self.thresholds, self.caught, self.alarms = Judged(fails, p).curve()
        self.precision = self.caught / self.alarms
        self.recall = self.caught / self.caught[-1]
        self.f1 = 2 * self.caught / (self.alarms + self.caught[-1])

    def evidence(self, value: float) -> dict[str, Any]:
        judged = at_threshold(self.fails, self.p >= value)
        return {
            "rows": len(self.fails),
            "failed": int(self.fails.sum()),
            "alarms": int((self.p >= value).sum()),
            **{name: judged[name] for name in ("precision", "recall", "f1")},
        }


def _highest_f1(curve: _Curve, _: float) -> tuple[float, dict[str, Any]]:
    predicted = np.cumsum(np.sort(curve.p)[::-1])[curve.alarms.astype(np.intp) - 1]
    caught = AS_IT_CAME * curve.caught + (1 - AS_IT_CAME) * predicted
    steadied = 2 * caught / (curve.alarms + caught[-1])
    best = curve.f1.max()
    place = np.argmax(np.where(curve.f1 >= best - PLATEAU, steadied, -1.0))
    return float(curve.thresholds[place]), {"best_f1": float(best)}


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
    "f1": _highest_f1,
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


def _expected_f1(rule: str, p: Floats, fails: Floats | None) -> Threshold:
    value, expected = _best_expected(p)
    evidence: dict[str, Any] = {"rows": len(p), "alarms": int((p >= value).sum()), "expected_f1": expected}
    if fails is not None:
        evidence["f1"] = at_threshold(fails, p >= value)["f1"]
    return Threshold(rule, value, evidence)


def _best_expected(p: Floats) -> tuple[float, float]:
    """The threshold with the highest expected F1, and that F1: each job fails with its probability."""
    ordered = np.sort(p)[::-1]
    expected = 2 * np.cumsum(ordered) / (np.arange(1, len(p) + 1) + ordered.sum())
    best = int(np.argmax(expected))
    return float(ordered[best]), float(expected[best])
