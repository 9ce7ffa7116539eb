"""From a model's margins to probabilities that come true as often as they say.

Two curves are tried in order of time, fitted on the earlier half of the calibration block and judged on the
later one by log loss: Platt's straight line in log odds, and an isotonic curve, which has to be clearly
better, by user-weeks, because it bends to every burst of failures. The better is fitted again on all of the
block. Platt's line is held near the margins as they are: a block of a modern log holds few decisions.

The isotonic curve is a centred one (Oron & Flournoy 2017): each of its steps stands at the mean margin of its
rows, with straight lines in log odds between, and beyond the ends it goes on with Platt's slope. Plain steps
would give thousands of jobs the same probability, which no threshold can part. No step is certain: a
failure is put below the lowest margin and a job that ended well above the highest one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from forewarn.learn.evaluation.bootstrap import Groups, paired_lead
from forewarn.learn.evaluation.metrics import Floats, surprise
from forewarn.learn.families.base import probabilities

FEWEST_ROWS, FEWEST_OF_A_CLASS = 200, 20  # below these an isotonic curve would fit noise
LEAST_SLOPE = 0.05  # a model that ranks at random, or worse, keeps its order all the same
# The belief that the slope is 1 and the intercept 0, in units of the information that rows bring (a row of
# weight 1 at 20 % brings .16 to the intercept): that of some hundred decisions for a first calibration, more
# for a correction, which else runs after every burst of failures and costs ranking. With the belief of 25
# decisions that there was before, and all jobs counting alike, the ECE of Graham cut after 60, 80, 100 % was
# .113, .181, .055; with this one and weights .077, .064, .051.
FAITH, STEADY = (300.0, 100.0), (1000.0, 100.0)
CLEARLY = 2.0  # standard errors
FARTHEST = 20.0  # log odds: far from 0 and 1 as floats know them


@dataclass(frozen=True, slots=True)
class Calibration:
    """Margins to probabilities: ``slope × curve(margin) + intercept`` are log odds.

    The curve runs through `knots` (margin, log odds) and goes on with the slope `tail`; without knots it is
    the margin itself.

    >>> Calibration()(np.array([0.0])).tolist()
    [0.5]
    """

    kind: str = "identity"  # or platt, isotonic, rate
    slope: float = 1.0
    intercept: float = 0.0
    knots: tuple[tuple[float, float], ...] = ()
    tail: float = 1.0
    evidence: Mapping[str, Any] = field(default_factory=dict)  # log losses of each kind on the later half

    def __call__(self, margins: NDArray[np.floating[Any]]) -> Floats:
        """The probability of failure of each row."""
        return probabilities(self.log_odds(margins))

    def log_odds(self, margins: NDArray[np.floating[Any]]) -> Floats:
        """The same as log odds."""
        margins = np.asarray(margins, np.float64)
        if self.knots:
            at, log_odds = np.array(self.knots).T
            beyond = margins - np.clip(margins, at[0], at[-1])
            margins = np.interp(margins, at, log_odds) + self.tail * beyond
        return np.clip(self.slope * margins + self.intercept, -FARTHEST, FARTHEST)

    def corrected(self, margins: Floats, fails: Floats, weights: Floats | None = None) -> Calibration:
        """The same curve moved and stretched to fit newer rows: what a base rate that drifts needs."""
        weights = np.ones(len(fails)) if weights is None else weights
        slope, intercept = _platt(self.log_odds(margins), fails, weights, STEADY)
        return replace(self, slope=slope * self.slope, intercept=slope * self.intercept + intercept)

    def moved(self, offset: float) -> Calibration:
        """The same curve for margins that lack so much."""
        if self.knots:
            return replace(self, knots=tuple((at - offset, log_odds) for at, log_odds in self.knots))
        return replace(self, intercept=self.intercept + self.slope * offset)

    def to_json(self) -> dict[str, Any]:
        """For the bundle."""
        return {
            "kind": self.kind,
            "slope": self.slope,
            "intercept": self.intercept,
            "knots": [list(knot) for knot in self.knots],
            "tail": self.tail,
            "evidence": dict(self.evidence),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """From the bundle."""
        return cls(**{**value, "knots": tuple((float(x), float(y)) for x, y in value["knots"])})


def calibrate(
    margins: Floats,
    fails: Floats,
    weights: Floats | None = None,
    groups: Groups | None = None,
    offset: float = 0.0,
) -> Calibration:
    """The calibration that does better later on. Rows come in order of time.

    Parameters
    ----------
    weights
        How much each row counts: one bulk of equal jobs would bend the curve to its own fate.
    groups
        Whose rows resemble each other: user-weeks. None do where they are not given.
    offset
        By how much the log odds are known to be off: those of a balanced sample are.
    """
    if offset:
        found = calibrate(np.asarray(margins, np.float64) + offset, fails, weights, groups)
        return found.moved(offset)
    margins, fails = np.asarray(margins, np.float64), np.asarray(fails, np.float64)
    weights = np.ones(len(fails)) if weights is None else np.asarray(weights, np.float64)
    failed = int(fails.sum())
    evidence: dict[str, Any] = {"rows": len(fails), "failed": failed}
    if len(fails) < FEWEST_ROWS or min(failed, len(fails) - failed) < FEWEST_OF_A_CLASS:
        evidence["why"] = (
            f"too few rows for a choice, which takes {FEWEST_ROWS} with {FEWEST_OF_A_CLASS} of each outcome"
        )
        return replace(_straight(margins, fails, weights), evidence=evidence)
    half = len(fails) // 2
    early, counts = (margins[:half], fails[:half], weights[:half]), weights[half:]
    later = {kind: surprise(fails[half:], make(*early)(margins[half:])) for kind, make in _KINDS.items()}
    losses = {kind: float(np.average(loss, weights=counts)) for kind, loss in later.items()}
    of_group = np.arange(len(counts)) if groups is None else np.unique(groups[half:], return_inverse=True)[1]
    platt, isotonic, whole = (
        np.bincount(of_group, part).astype(np.float64)
        for part in (counts * later["platt"], counts * later["isotonic"], counts)
    )
    gain, error = paired_lead(platt, isotonic, whole)
    chosen = "isotonic" if gain > CLEARLY * error else "platt"
    return replace(_KINDS[chosen](margins, fails, weights), evidence={**evidence, "log_loss": losses})


def flat(margins: Floats, fails: Floats, weights: Floats) -> Calibration:
    """The failure rate, with what is left of the margins' order: for a model that cannot tell jobs apart."""
    rate, middle = (float(np.average(part, weights=weights)) for part in (fails, margins))
    evidence = {"rows": len(fails), "failed": int(fails.sum()), "why": "it tells no more than the rate"}
    intercept = float(np.log(rate / (1 - rate)) - LEAST_SLOPE * middle)
    return Calibration("rate", LEAST_SLOPE, intercept, evidence=evidence)


def straight(margins: Floats, fails: Floats, weights: Floats) -> Calibration:
    """Platt's line alone, which never ties what lay apart."""
    evidence = {"rows": len(fails), "failed": int(fails.sum())}
    return replace(_straight(margins, fails, weights), evidence=evidence)


def calibrated_in_time(
    margins: Floats,
    fails: Floats,
    moment: NDArray[np.int64],
    known: NDArray[np.int64],
    *,
    start: Calibration,
    weights: Floats | None = None,
    window: int = 6_000,
    every: int = 86_400,
) -> Floats:
    """Probabilities as a service gives them that corrects its calibration every so many seconds.

    Each correction is made from the last `window` outcomes that had become known by then, whenever their jobs
    began: to take the latest jobs instead would favour the short ones, which end first.

    Parameters
    ----------
    moment
        When each prediction is made.
    known
        When its outcome is known, -1 for never.
    start
        The calibration to begin with, and to correct.
    weights
        How much each row counts: else one bulk of equal jobs fills the window.
    """
    weights = np.ones(len(margins)) if weights is None else weights
    period = moment // every
    learnt_from = np.argsort(known, kind="stable")
    learnt_from = learnt_from[(known >= 0)[learnt_from] & np.isfinite(fails[learnt_from])]
    until = known[learnt_from]
    made = np.empty(len(margins))
    for turn in np.unique(period):
        seen = int(np.searchsorted(until, turn * every))  # known strictly before the period begins
        rows = learnt_from[max(seen - window, 0) : seen]
        now = period == turn
        made[now] = start.corrected(margins[rows], fails[rows], weights[rows])(margins[now])
    return made


def _straight(margins: Floats, fails: Floats, weights: Floats) -> Calibration:
    slope, intercept = _platt(margins, fails, weights)
    return Calibration("platt", slope, intercept)


def _isotonic(margins: Floats, fails: Floats, weights: Floats) -> Calibration:
    from sklearn.isotonic import isotonic_regression

    x = np.concatenate([[margins.min()], margins, [margins.max()]])
    counts = np.concatenate([[1.0], weights, [1.0]])
    at, place = np.unique(x, return_inverse=True)
    rows = np.bincount(place, counts)
    failed = np.bincount(place, counts * np.concatenate([[1.0], fails, [0.0]]))
    rates, step = np.unique(isotonic_regression(failed / rows, sample_weight=rows), return_inverse=True)
    centres = np.bincount(step, at * rows) / np.bincount(step, rows)
    knots = zip(centres.tolist(), np.log(rates / (1 - rates)).tolist(), strict=True)
    return Calibration("isotonic", knots=tuple(knots), tail=_platt(margins, fails, weights)[0])


_KINDS = {"identity": lambda *_: Calibration(), "platt": _straight, "isotonic": _isotonic}


def _platt(
    margins: Floats, fails: Floats, weights: Floats, faith: tuple[float, float] = FAITH
) -> tuple[float, float]:
    """Slope and intercept by Newton's steps, with Platt's smoothed targets (1999)."""
    failed = (weights * fails).sum()
    targets = np.where(fails > 0, (failed + 1) / (failed + 2), 1 / (weights.sum() - failed + 2))
    believed, faith_in = np.array([1.0, 0.0]), np.array(faith)

    def loss(line: Floats) -> float:
        z = line[0] * margins + line[1]
        doubt = (faith_in * (line - believed) ** 2).sum() / 2
        return float((weights * (np.logaddexp(0, z) - targets * z)).sum() + doubt)

    line, now = believed, loss(believed)
    for _ in range(50):
        p = probabilities(line[0] * margins + line[1])
        error, weight = weights * (p - targets), weights * p * (1 - p)
        down = np.array([(error * margins).sum(), error.sum()]) + faith_in * (line - believed)
        cross = (weight * margins).sum()
        bend = np.array([[(weight * margins**2).sum(), cross], [cross, weight.sum()]]) + np.diag(faith_in)
        step = np.linalg.solve(bend, down)
        # The loss is convex: a step that goes too far is halved until it helps.
        while loss(line - step) > now and np.abs(step).max() > 1e-9:
            step /= 2
        line, before, now = line - step, now, loss(line - step)
        if before - now < 1e-9:
            break
    if line[0] < LEAST_SLOPE:
        rate, middle = (float(np.average(part, weights=weights)) for part in (targets, margins))
        return LEAST_SLOPE, float(np.log(rate / (1 - rate)) - LEAST_SLOPE * middle)
    return float(line[0]), float(line[1])
