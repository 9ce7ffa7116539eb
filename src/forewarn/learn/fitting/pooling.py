"""The risk that is stated of a job: a model's, pooled with what the job is forecast to need.

Of hitting the time limit or running out of memory there are two opinions: the model of failure, by its
causes, and the forecast of run time and memory against the request. They are pooled as a weighted mean of
log odds. How much the forecast counts is decided on the block `calibrate`, and the pooled log odds are
calibrated there too: what training, benchmark and evaluation judge is the number that people are shown.

Before that the model's probability is pooled with the user's record of this job (`own_record.py`): jobs of
the same name and request that all ended alike. It counts one half where the block `calibrate` has too few
such jobs to judge by, or shows that this is clearly better; else nothing.

Causes are competing hazards: the first to strike is the one that is seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from forewarn.job.outcomes import Outcome
from forewarn.learn.data.matrix import Matrix, Rows, or_zero
from forewarn.learn.data.table import JobTable
from forewarn.learn.evaluation.bootstrap import Groups, paired_lead
from forewarn.learn.evaluation.metrics import Floats, surprise
from forewarn.learn.families.base import log_odds
from forewarn.learn.fitting.calibration import Calibration, straight
from forewarn.learn.fitting.own_record import HALF, alike, pool_with_record
from forewarn.learn.heads.causes import Cause, Causes
from forewarn.learn.heads.usage import Usage, UsageForecast
from forewarn.learn.heads.usage.quantities import memory_a_node, time_limit

FORECASTS = ("run_time", "memory")  # that are held against a request
# How much a forecast can count. Never nothing where requests are enforced: advice rests on it. More than a
# quarter ranks failures by hours better on Graham and time-outs worse; on CTC-SP2, SDSC-SP2 and SDSC-BLUE it
# is worse throughout, and `calibrate` holds too few decisions to choose well: docs/measurements.md#one-risk.
WEIGHTS = (0.1, 0.25)
# A forecast that is surer than the model counts more from here on, up to three quarters: of jobs with 70 %
# and more, 79 to 99 % failed (Graham, CTC-SP2, SDSC-SP2, SDSC-BLUE: 138 to 1,864 each). A model has met few
# requests that are far too small, and a simple rule knows nothing of requests at all.
PROBABLE, MOST = 0.7, 0.75
# A block tells whether the user's own record is worth more than the model from so many such jobs and
# user-weeks on; clearly is by so many standard errors.
FEWEST_RECORDS, FEWEST_GROUPS, CLEARLY = 30, 10, 2.0
CERTAIN = 1e-3  # no opinion counts as surer than this, in either direction
# A user's own runs of the same request overrule a forecast: after so many, none of which came near the
# request, the chance to exceed it is at most that of one more run that does (Laplace).
FEWEST_OWN, FAR_BELOW = 3, {"limit": 2.0, "memory": 1.0}  # log2 of requested over used

Excess = Mapping[str, Floats]  # by outcome, the probability of needing more than was requested; NaN: unknown


@dataclass(frozen=True, slots=True)
class Risk:
    """What is stated of some jobs, one row each."""

    own: Floats  # probability of failure by the model alone
    given: Floats  # jobs × causes: the probability of each if the job fails
    probability: Floats  # with the forecast needs: the one that is shown, warned by, and judged
    by_cause: Floats  # jobs × causes; rows add up to `probability`


@dataclass(frozen=True, slots=True)
class Pooling:
    """How much forecasts and the user's own record count, and the calibration of what comes out."""

    weight: float  # of a forecast
    outcomes: tuple[str, ...]  # that are forecast; none: no forecast counts
    calibration: Calibration
    record: float = 0.0  # weight of the user's record with this very job
    usual: float = 0.5  # the failure rate that this record is added to

    def with_record(self, own: Floats, matrix: Matrix) -> Floats:
        """Pool the model's probabilities with the user's own record."""
        return pool_with_record(own, ended_alike(matrix), self.usual, self.record) if self.record else own

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
            "record": self.record,
            "usual": self.usual,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """From the bundle; one of an earlier version knows no record."""
        return cls(
            float(value["weight"]),
            tuple(value["outcomes"]),
            Calibration.from_json(value["calibration"]),
            float(value.get("record", 0.0)),
            float(value.get("usual", 0.5)),
        )


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
        return Risk(own, given, own, own[:, None] * given)
    hazards = _hazards(own, given, causes, excess, pooling.weight, pooling.outcomes)
    total = hazards.sum(axis=1)
    p = pooling.calibration(_log_odds_of_hazard(total))
    return Risk(own, given, p, p[:, None] * hazards / total[:, None])


def excess_of(foreseen: UsageForecast, part: JobTable) -> dict[str, Floats]:
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


def _within_own_runs(over: Floats, part: JobTable, what: str) -> Floats:
    """Hold a forecast below what the user's own runs of the same request leave possible."""
    runs, hits, below = (
        part.column(f"user_request_{name}").astype(np.float64)
        for name in ("ended", f"{what}15", f"{what}_ratio")
    )
    is_far = (runs >= FEWEST_OWN) & (or_zero(hits) < CERTAIN) & (below >= FAR_BELOW[what])
    return np.where(is_far, np.minimum(over, 1 / (runs + 2)), over)


def record_weight(
    own: Floats, records: Floats, usual: float, fails: Floats, weights: Floats, groups: Groups
) -> float:
    """Choose how much the user's own record counts, on jobs that the model was not fitted to."""
    there = ~np.isnan(records)
    within = np.unique(groups[there], return_inverse=True)[1]
    if there.sum() < FEWEST_RECORDS or len(np.unique(within)) < FEWEST_GROUPS:
        return HALF
    with_own = pool_with_record(own, records, usual)
    by_model, by_record, rows = (
        np.bincount(within, part[there] * weights[there]).astype(np.float64)
        for part in (surprise(fails, own), surprise(fails, with_own), np.ones(len(fails)))
    )
    lead, error = paired_lead(by_model, by_record, rows)
    return HALF if lead > CLEARLY * error else 0.0


def ended_alike(matrix: Matrix) -> Floats:
    """How many of the user's jobs of the same name and request ended alike, as `own_record.alike` counts."""
    names = matrix.names
    missing = np.full(len(matrix.values), np.nan)
    return alike(lambda name: matrix.values[:, names.index(name)] if name in names else missing)


def choose_pooling(
    own: Floats,
    given: Floats,
    causes: Sequence[Cause],
    excess: Excess,
    fails: Floats,
    weights: Floats,
    groups: Groups,
    records: Floats | None = None,
    usual: float = 0.5,
) -> Pooling | None:
    """Choose how much forecasts and own records count, on jobs that neither model nor forecast was fitted to.

    Parameters
    ----------
    records
        What `ended_alike` finds for these jobs; None: no record counts.
    usual
        The failure rate of the jobs learnt from.
    """
    outcomes = _shared(excess, causes)
    record = 0.0
    if records is not None:
        record = record_weight(own, records, usual, fails, weights, groups)
        own = pool_with_record(own, records, usual, record)
    if not outcomes:
        return Pooling(0.0, (), Calibration(), record, usual) if record else None

    def pooling(weight: float) -> tuple[float, Pooling]:
        z = _log_odds_of_hazard(_hazards(own, given, causes, excess, weight, outcomes).sum(axis=1))
        # Equal jobs sent at once count as few. A straight line: the model's probabilities are calibrated
        # already, and a second curve would bend to the block (Sandia-Ross: ECE .015 → .029).
        calibration = straight(z, fails, weights**2)
        loss = np.average(surprise(fails, calibration(z)), weights=weights)
        return float(loss), Pooling(weight, outcomes, calibration, record, usual)

    return min(map(pooling, WEIGHTS), key=lambda found: found[0])[1]


def beside_rule(excess: Excess, causes: Sequence[Cause]) -> Pooling | None:
    """How a simple rule is stated: as it is, unless it is probable that the request is exceeded."""
    outcomes = _shared(excess, causes)
    return Pooling(0.0, outcomes, Calibration()) if outcomes else None


def _shared(excess: Excess, causes: Sequence[Cause]) -> tuple[str, ...]:
    """Find the outcomes that are forecast and that jobs have failed of."""
    return tuple(sorted(set(excess).intersection(cause.outcome for cause in causes)))


@dataclass(frozen=True, slots=True)
class RiskInputs:
    """What states a risk beside the model of failure: causes, and forecasts where there are any."""

    causes: Causes
    usage: Usage | None

    def excess(self, table: JobTable, rows: Rows) -> Excess:
        """Of some jobs of a table, for the limits that this cluster enforces."""
        if self.usage is None:
            return {}
        return self.excess_of(self.usage.foresee(table, rows, only=FORECASTS), table.rows(np.asarray(rows)))

    def excess_of(self, foreseen: UsageForecast, part: JobTable) -> Excess:
        """The same of jobs whose needs have been forecast already."""
        if self.usage is None:
            return {}
        found = excess_of(foreseen, part)
        return {name: over for name, over in found.items() if self.usage.is_enforced(name)}

    def risk(self, own: Floats, matrix: Matrix, excess: Excess, pooling: Pooling | None) -> Risk:
        """State the risk of jobs that the model gives these probabilities."""
        with_own = pooling.with_record(own, matrix) if pooling else own
        stated = risk(with_own, self.causes.given_failure(matrix), self.causes.causes, excess, pooling)
        return replace(stated, own=own)


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
        by_model, forecast = (
            log_odds(-np.expm1(-there), CERTAIN),
            log_odds(np.where(known, over, 0.5), CERTAIN),
        )
        surer = np.clip((over - PROBABLE) / (1 - PROBABLE), 0.0, 1.0) * (forecast > by_model)
        counts = weight + (MOST - weight) * np.where(known, surer, 0.0)
        pooled = (1 - counts) * by_model + counts * forecast
        made[:, places] *= np.where(known, np.logaddexp(0.0, pooled) / there, 1.0)[:, None]
    return np.asarray(made)


def _log_odds_of_hazard(hazard: Floats) -> Floats:
    """Of the probability 1 - exp(-hazard)."""
    return np.asarray(hazard + np.log(-np.expm1(-np.maximum(hazard, 1e-12))))
