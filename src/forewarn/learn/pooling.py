"""The risk that is stated of a job: a model's, pooled with what the job is forecast to need.

Of hitting the time limit or running out of memory there are two opinions: the model of failure, by its
causes, and the forecast of run time and memory against the request. They are pooled as a weighted mean of
log odds. How much the forecast counts is decided on the block `calibrate`, and the pooled log odds are
calibrated there too: what training, benchmark and evaluation judge is the number that people are shown.

Causes are competing hazards: the first to strike is the one that is seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from forewarn.job.outcomes import Outcome
from forewarn.learn.calibration import Calibration, straight
from forewarn.learn.causes import Cause, Causes
from forewarn.learn.matrix import Matrix, Rows
from forewarn.learn.metrics import Floats, surprise
from forewarn.learn.table import Table
from forewarn.learn.usage import Foreseen, Usage
from forewarn.learn.usage.quantities import memory_a_node, time_limit

FORECASTS = ("run_time", "memory")  # that are held against a request
# How much a forecast can count. Never nothing where requests are enforced: advice rests on it. More than a
# quarter ranks failures by hours better on Graham and time-outs worse; on CTC-SP2, SDSC-SP2 and SDSC-BLUE it
# is worse throughout, and `calibrate` holds too few decisions to choose well: docs/measurements.md#one-risk.
WEIGHTS = (0.1, 0.25)
CERTAIN = 1e-3  # no opinion counts as surer than this, in either direction
# A user's own runs of the same request overrule a forecast: after so many, none of which came near the
# request, the chance to exceed it is at most that of one more run that does (Laplace).
FEWEST_OWN, FAR_BELOW = 3, {"limit": 2.0, "memory": 1.0}  # log2 of requested over used

Excess = Mapping[str, Floats]  # by outcome, the probability of needing more than was requested; NaN: unknown


@dataclass(frozen=True, slots=True)
class Risk:
    """What is stated of some jobs, one row each."""

    own: Floats  # probability of failure by the model alone
    probability: Floats  # with the forecast needs: the one that is shown, warned by, and judged
    by_cause: Floats  # jobs × causes; rows add up to `probability`


@dataclass(frozen=True, slots=True)
class Pooling:
    """How much a forecast counts, for which causes, and the calibration of what comes out."""

    weight: float
    outcomes: tuple[str, ...]
    calibration: Calibration

    def log_odds(self, own: Floats, given: Floats, causes: Sequence[Cause], excess: Excess) -> Floats:
        """Compute pooled log odds, before calibration."""
        total = _hazards(own, given, causes, excess, self.weight, self.outcomes).sum(axis=1)
        return _log_odds_of_hazard(total)

    def to_json(self) -> dict[str, Any]:
        """For the bundle."""
        return {
            "weight": self.weight,
            "outcomes": list(self.outcomes),
            "calibration": self.calibration.to_json(),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """From the bundle."""
        calibration = Calibration.from_json(value["calibration"])
        return cls(float(value["weight"]), tuple(value["outcomes"]), calibration)


def risk(
    own: Floats, given: Floats, causes: Sequence[Cause], excess: Excess, pooling: Pooling | None
) -> Risk:
    """State the risk of some jobs.

    Parameters
    ----------
    own
        The model's calibrated probabilities of failure.
    given
        The probability of each cause if the job fails, jobs × causes.
    excess
        The probability of needing more than was requested, by the outcome that this ends in.
    pooling
        None where no forecast counts: the model's own probability is stated.
    """
    if pooling is None:
        return Risk(own, own, own[:, None] * given)
    hazards = _hazards(own, given, causes, excess, pooling.weight, pooling.outcomes)
    total = hazards.sum(axis=1)
    p = pooling.calibration(_log_odds_of_hazard(total))
    return Risk(own, p, p[:, None] * hazards / total[:, None])


def excess_of(foreseen: Foreseen, part: Table) -> dict[str, Floats]:
    """Compute how likely each job exceeds its time limit and its memory, where a forecast tells."""
    found = {
        "limit": (Outcome.TIMEOUT, foreseen.over_limit(time_limit(part))),
        "memory": (Outcome.OUT_OF_MEMORY, foreseen.over_memory(memory_a_node(part))),
    }
    return {
        str(outcome): _within_own_runs(over, part, what)
        for what, (outcome, over) in found.items()
        if over is not None
    }


def _within_own_runs(over: Floats, part: Table, what: str) -> Floats:
    """Hold a forecast below what the user's own runs of the same request leave possible."""
    runs, hits, below = (
        part.column(f"user_request_{name}").astype(np.float64)
        for name in ("ended", f"{what}15", f"{what}_ratio")
    )
    is_far = (runs >= FEWEST_OWN) & (np.nan_to_num(hits) < CERTAIN) & (below >= FAR_BELOW[what])
    return np.where(is_far, np.minimum(over, 1 / (runs + 2)), over)


def choose_pooling(
    own: Floats,
    given: Floats,
    causes: Sequence[Cause],
    excess: Excess,
    fails: Floats,
    weights: Floats,
) -> Pooling | None:
    """Choose how much forecasts count, on jobs that neither model nor forecast was fitted to."""
    outcomes = tuple(sorted(set(excess).intersection(cause.outcome for cause in causes)))
    if not outcomes:
        return None

    def pooling(weight: float) -> tuple[float, Pooling]:
        z = _log_odds_of_hazard(_hazards(own, given, causes, excess, weight, outcomes).sum(axis=1))
        # Equal jobs sent at once count as few. A straight line: the model's probabilities are calibrated
        # already, and a second curve would bend to the block (Sandia-Ross: ECE .015 → .029).
        calibration = straight(z, fails, weights**2)
        loss = np.average(surprise(fails, calibration(z)), weights=weights)
        return float(loss), Pooling(weight, outcomes, calibration)

    return min(map(pooling, WEIGHTS), key=lambda found: found[0])[1]


@dataclass(frozen=True, slots=True)
class Needs:
    """What states a risk beside the model of failure: causes, and forecasts where there are any."""

    causes: Causes
    usage: Usage | None

    def excess(self, table: Table, rows: Rows) -> Excess:
        """Of some jobs of a table, for the limits that this cluster enforces."""
        if self.usage is None:
            return {}
        return self.excess_of(self.usage.foresee(table, rows, only=FORECASTS), table.rows(np.asarray(rows)))

    def excess_of(self, foreseen: Foreseen, part: Table) -> Excess:
        """The same of jobs whose needs have been forecast already."""
        if self.usage is None:
            return {}
        found = excess_of(foreseen, part)
        return {name: over for name, over in found.items() if self.usage.is_enforced(name)}

    def risk(self, own: Floats, matrix: Matrix, excess: Excess, pooling: Pooling | None) -> Risk:
        """State the risk of jobs that the model gives these probabilities."""
        return risk(own, self.causes.given_failure(matrix), self.causes.causes, excess, pooling)


def _hazards(
    own: Floats,
    given: Floats,
    causes: Sequence[Cause],
    excess: Excess,
    weight: float,
    outcomes: Sequence[str],
) -> Floats:
    """Each cause's part of -log(1 - probability), with the forecasts in it."""
    made = -np.log1p(-np.clip(own, 1e-9, 1 - CERTAIN))[:, None] * given
    for outcome in outcomes:
        over = excess.get(outcome)
        if over is None:
            continue
        places = [place for place, cause in enumerate(causes) if cause.outcome == outcome]
        there, known = np.maximum(made[:, places].sum(axis=1), 1e-12), ~np.isnan(over)
        pooled = (1 - weight) * _log_odds(-np.expm1(-there)) + weight * _log_odds(np.where(known, over, 0.5))
        made[:, places] *= np.where(known, np.logaddexp(0.0, pooled) / there, 1.0)[:, None]
    return np.asarray(made)


def _log_odds(p: Floats) -> Floats:
    p = np.clip(p, CERTAIN, 1 - CERTAIN)
    return np.asarray(np.log(p / (1 - p)))


def _log_odds_of_hazard(hazard: Floats) -> Floats:
    """Of the probability 1 - exp(-hazard)."""
    return np.asarray(hazard + np.log(-np.expm1(-np.maximum(hazard, 1e-12))))
