"""Calibration: a model's margins mapped to probabilities that come true as often as they say.

Two curves are fitted on the earlier half of the calibration block and compared by log loss on the later half:
Platt's straight line in log odds, and an isotonic curve, which has to be clearly better, by user-weeks,
because it follows every burst of failures. The better one is fitted again on the whole block. Platt's line is
shrunk towards the margins as they are: a block of a modern log holds few decisions.

The isotonic curve is centred (Oron & Flournoy 2017): each of its steps is placed at the mean margin of its
rows, with straight lines in log odds between them, and beyond the ends it continues with Platt's slope. Plain
steps would give thousands of jobs the same probability, which no threshold can separate. No step is certain:
one failure is added at the lowest margin and one job that completed at the highest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from forewarn.learn.evaluation.bootstrap import Groups, paired_lead
from forewarn.learn.evaluation.metrics import Floats, log_losses
from forewarn.learn.families.base import probabilities

FEWEST_ROWS, FEWEST_OF_A_CLASS = 200, 20  # below these an isotonic curve would fit noise
LEAST_SLOPE = 0.05  # a model that ranks at random, or worse, still keeps its order
# The precision of the prior that the slope is 1 and the intercept 0, in units of the information that rows
# add (a row of weight 1 at 20% adds .16 to the intercept): that of some hundred decisions for a first
# calibration, more for a correction, which otherwise follows every burst of failures and costs ranking. With
# a prior of 25 decisions and equal weights for all jobs, the ECE of Graham cut after 60, 80, 100% was .113,
# .181, .055; with this one and weights .077, .064, .051.
PRIOR_PRECISION, CORRECTION_PRECISION = (300.0, 100.0), (1000.0, 100.0)
CLEARLY = 2.0  # standard errors
FARTHEST = 20.0  # log odds, so that no float becomes 0 or 1


@dataclass(frozen=True, slots=True)
class Calibration:
    """A map from margins to probabilities: ``slope × curve(margin) + intercept`` are log odds.

    The curve runs through `knots` (margin, log odds) and continues with the slope `tail`; without knots it is
    the margin itself.

    >>> Calibration()(np.array([0.0])).tolist()
    [0.5]
    """

    method: str = "identity"  # or platt, isotonic, rate
    slope: float = 1.0
    intercept: float = 0.0
    knots: tuple[tuple[float, float], ...] = ()
    tail: float = 1.0
    evidence: Mapping[str, Any] = field(default_factory=dict)  # log loss of each method on the later half

    def __call__(self, margins: NDArray[np.floating[Any]]) -> Floats:
        """Return the probability of failure of each row."""
        return probabilities(self.log_odds(margins))

    def log_odds(self, margins: NDArray[np.floating[Any]]) -> Floats:
        """Return calibrated log odds of failure of each row."""
        margins = np.asarray(margins, np.float64)
        if self.knots:
            knots, log_odds = np.array(self.knots).T
            beyond = margins - np.clip(margins, knots[0], knots[-1])
            margins = np.interp(margins, knots, log_odds) + self.tail * beyond
        return np.clip(self.slope * margins + self.intercept, -FARTHEST, FARTHEST)

    def correct(self, margins: Floats, fails: Floats, weights: Floats | None = None) -> Calibration:
        """Shift and stretch the curve to fit newer rows, as a drifting base rate requires."""
        weights = np.ones(len(fails)) if weights is None else weights
        slope, intercept = _platt(self.log_odds(margins), fails, weights, CORRECTION_PRECISION)
        return replace(self, slope=slope * self.slope, intercept=slope * self.intercept + intercept)

    def shift(self, offset: float) -> Calibration:
        """Adapt the curve to margins that are too low by `offset`."""
        if self.knots:
            return replace(self, knots=tuple((margin - offset, log_odds) for margin, log_odds in self.knots))
        return replace(self, intercept=self.intercept + self.slope * offset)

    def to_json(self) -> dict[str, Any]:
        """Return what the bundle stores."""
        return {
            "kind": self.method,
            "slope": self.slope,
            "intercept": self.intercept,
            "knots": [list(knot) for knot in self.knots],
            "tail": self.tail,
            "evidence": dict(self.evidence),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Read what the bundle stores."""
        fields = {name: part for name, part in value.items() if name != "kind"}
        return cls(
            method=value["kind"],
            **{**fields, "knots": tuple((float(x), float(y)) for x, y in value["knots"])},
        )


def calibrate(
    margins: Floats,
    fails: Floats,
    weights: Floats | None = None,
    groups: Groups | None = None,
    offset: float = 0.0,
) -> Calibration:
    """Fit the calibration that does better on later rows. Rows are in order of time.

    Parameters
    ----------
    weights
        The weight of each row: without them one bulk of equal jobs would bend the curve to its own outcome.
    groups
        The user-week of each row, within which rows resemble each other; None: all rows are independent.
    offset
        By how much the log odds are known to be too low: those of a balanced sample are.
    """
    if offset:
        shifted = calibrate(np.asarray(margins, np.float64) + offset, fails, weights, groups)
        return shifted.shift(offset)
    margins, fails = np.asarray(margins, np.float64), np.asarray(fails, np.float64)
    weights = np.ones(len(fails)) if weights is None else np.asarray(weights, np.float64)
    failed = int(fails.sum())
    evidence: dict[str, Any] = {"rows": len(fails), "failed": failed}
    if len(fails) < FEWEST_ROWS or min(failed, len(fails) - failed) < FEWEST_OF_A_CLASS:
        evidence["why"] = (
            f"too few rows to choose between curves: at least {FEWEST_ROWS} are needed, with "
            f"{FEWEST_OF_A_CLASS} of each outcome"
        )
        return replace(_platt_line(margins, fails, weights), evidence=evidence)
    half = len(fails) // 2
    early, later_weights = (margins[:half], fails[:half], weights[:half]), weights[half:]
    later = {
        method: log_losses(fails[half:], fit_curve(*early)(margins[half:]))
        for method, fit_curve in _METHODS.items()
    }
    losses = {method: float(np.average(loss, weights=later_weights)) for method, loss in later.items()}
    rows = np.arange(len(later_weights))
    group_of_row = rows if groups is None else np.unique(groups[half:], return_inverse=True)[1]
    platt, isotonic, total = (
        np.bincount(group_of_row, part).astype(np.float64)
        for part in (later_weights * later["platt"], later_weights * later["isotonic"], later_weights)
    )
    gain, error = paired_lead(platt, isotonic, total)
    chosen = "isotonic" if gain > CLEARLY * error else "platt"
    return replace(_METHODS[chosen](margins, fails, weights), evidence={**evidence, "log_loss": losses})


def rate_calibration(margins: Floats, fails: Floats, weights: Floats) -> Calibration:
    """Map all margins to nearly the failure rate, for a model that cannot distinguish jobs.

    The least slope keeps the order of the margins.
    """
    rate, middle = (float(np.average(part, weights=weights)) for part in (fails, margins))
    evidence = {
        "rows": len(fails),
        "failed": int(fails.sum()),
        "why": "the model predicts no better than the failure rate",
    }
    intercept = float(np.log(rate / (1 - rate)) - LEAST_SLOPE * middle)
    return Calibration("rate", LEAST_SLOPE, intercept, evidence=evidence)


def platt_calibration(margins: Floats, fails: Floats, weights: Floats) -> Calibration:
    """Fit Platt's line, which keeps different margins different."""
    evidence = {"rows": len(fails), "failed": int(fails.sum())}
    return replace(_platt_line(margins, fails, weights), evidence=evidence)


def calibrate_over_time(
    margins: Floats,
    fails: Floats,
    at: NDArray[np.int64],
    known_at: NDArray[np.int64],
    *,
    start: Calibration,
    weights: Floats | None = None,
    window: int = 6_000,
    every: int = 86_400,
) -> Floats:
    """Compute the probabilities of a service that corrects its calibration every `every` seconds.

    Each correction uses the last `window` outcomes that had become known by then, whenever their jobs began:
    the latest jobs instead would favour the short ones, which end first.

    Parameters
    ----------
    at
        When each prediction is made.
    known_at
        When its outcome becomes known, -1 for never.
    start
        The calibration to begin with, and to correct.
    weights
        The weight of each row: without them one bulk of equal jobs fills the window.
    """
    weights = np.ones(len(margins)) if weights is None else weights
    period_of_row = at // every
    ended = np.argsort(known_at, kind="stable")
    ended = ended[(known_at >= 0)[ended] & np.isfinite(fails[ended])]
    ended_at = known_at[ended]
    p = np.empty(len(margins))
    for period in np.unique(period_of_row):
        count = int(np.searchsorted(ended_at, period * every))  # known strictly before the period begins
        rows = ended[max(count - window, 0) : count]
        inside = period_of_row == period
        p[inside] = start.correct(margins[rows], fails[rows], weights[rows])(margins[inside])
    return p


def _platt_line(margins: Floats, fails: Floats, weights: Floats) -> Calibration:
    slope, intercept = _platt(margins, fails, weights)
    return Calibration("platt", slope, intercept)


def _isotonic(margins: Floats, fails: Floats, weights: Floats) -> Calibration:
    from sklearn.isotonic import isotonic_regression

    x = np.concatenate([[margins.min()], margins, [margins.max()]])
    row_weights = np.concatenate([[1.0], weights, [1.0]])
    distinct, place = np.unique(x, return_inverse=True)
    total = np.bincount(place, row_weights)
    failed = np.bincount(place, row_weights * np.concatenate([[1.0], fails, [0.0]]))
    rates, step = np.unique(isotonic_regression(failed / total, sample_weight=total), return_inverse=True)
    centres = np.bincount(step, distinct * total) / np.bincount(step, total)
    knots = zip(centres.tolist(), np.log(rates / (1 - rates)).tolist(), strict=True)
    return Calibration("isotonic", knots=tuple(knots), tail=_platt(margins, fails, weights)[0])


_METHODS = {"identity": lambda *_: Calibration(), "platt": _platt_line, "isotonic": _isotonic}


def _platt(
    margins: Floats,
    fails: Floats,
    weights: Floats,
    prior_precision: tuple[float, float] = PRIOR_PRECISION,
) -> tuple[float, float]:
    """Fit slope and intercept by Newton's method, with Platt's smoothed targets (1999)."""
    failed = (weights * fails).sum()
    targets = np.where(fails > 0, (failed + 1) / (failed + 2), 1 / (weights.sum() - failed + 2))
    prior, precision = np.array([1.0, 0.0]), np.array(prior_precision)

    def loss(line: Floats) -> float:
        z = line[0] * margins + line[1]
        penalty = (precision * (line - prior) ** 2).sum() / 2
        return float((weights * (np.logaddexp(0, z) - targets * z)).sum() + penalty)

    line, current = prior, loss(prior)
    for _ in range(50):
        p = probabilities(line[0] * margins + line[1])
        error, weight = weights * (p - targets), weights * p * (1 - p)
        gradient = np.array([(error * margins).sum(), error.sum()]) + precision * (line - prior)
        cross = (weight * margins).sum()
        hessian = np.array([[(weight * margins**2).sum(), cross], [cross, weight.sum()]]) + np.diag(precision)
        step = np.linalg.solve(hessian, gradient)
        # The loss is convex: a step that goes too far is halved until it helps.
        while loss(line - step) > current and np.abs(step).max() > 1e-9:
            step /= 2
        line, before, current = line - step, current, loss(line - step)
        if before - current < 1e-9:
            break
    if line[0] < LEAST_SLOPE:
        rate, middle = (float(np.average(part, weights=weights)) for part in (targets, margins))
        return LEAST_SLOPE, float(np.log(rate / (1 - rate)) - LEAST_SLOPE * middle)
    return float(line[0]), float(line[1])
