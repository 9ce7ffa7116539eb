"""The stated risk of a job: the model's probability of failure, pooled with the forecast of its usage.

There are two estimates of hitting the time limit or running out of memory: the model of failure, by its
causes, and the forecast of run time and memory compared with the request. They are pooled as a weighted mean
of log odds. The weight of the forecast is chosen on the block `calibrate`, and the pooled log odds are
calibrated there too: training, benchmark and evaluation measure the number that people are shown.

Before that the model's probability is pooled with the user's record of this job (`own_record.py`): jobs of
the same name and request that all had the same outcome. Its weight is one half where the block `calibrate`
has too few such jobs to compare, or shows that this is clearly better; otherwise 0.

Causes are competing hazards: the first event is the one that is observed.
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
from forewarn.learn.evaluation.metrics import Floats, log_losses
from forewarn.learn.families.base import log_odds
from forewarn.learn.fitting.calibration import Calibration, platt_calibration
from forewarn.learn.fitting.own_record import RECORD_WEIGHT, pool_with_record, uniform_record
from forewarn.learn.heads.causes import Cause, Causes
from forewarn.learn.heads.usage import Usage, UsageForecast
from forewarn.learn.heads.usage.quantities import memory_per_node, time_limit

FORECASTS = ("run_time", "memory")  # that are compared with a request
# The weights that a forecast can have. Never 0 where requests are enforced: advice depends on it. More than a
# quarter ranks failures by hours better on Graham and timeouts worse; on CTC-SP2, SDSC-SP2 and SDSC-BLUE it
# is worse throughout, and `calibrate` holds too few decisions to choose well: docs/measurements.md#one-risk.
WEIGHTS = (0.1, 0.25)
# The probability from which a forecast that exceeds the model's has a larger weight, and the largest weight:
# of jobs with 70% and more, 79 to 99% failed (Graham, CTC-SP2, SDSC-SP2, SDSC-BLUE: 138 to 1,864 each). A
# model has learnt from few requests that are far too small, and a simple rule does not use the request at
# all.
PROBABLE, MOST = 0.7, 0.75
# The number of jobs with a record, and of user-weeks, from which a block shows whether the user's own record
# predicts better than the model; and the number of standard errors that count as clearly better.
FEWEST_RECORDS, FEWEST_GROUPS, CLEARLY = 30, 10, 2.0
CERTAIN = 1e-3  # no estimate counts as closer to 0 or 1 than this
# A user's own runs of the same request overrule a forecast: after this many, none of which came near the
# request, the probability of exceeding it is at most that of one more run that does (Laplace).
FEWEST_OWN, FAR_BELOW = 3, {"limit": 2.0, "memory": 1.0}  # log2 of requested over used

Excess = Mapping[str, Floats]  # by outcome, the probability of exceeding the request; NaN: unknown


@dataclass(frozen=True, slots=True)
class Risk:
    """The stated risk of some jobs, one row each."""

    model_probability: Floats  # of failure, by the model alone
    given_failure: Floats  # jobs × causes: the probability of each if the job fails
    probability: (
        Floats  # pooled with forecasts: the one that is shown, compared with thresholds and evaluated
    )
    by_cause: Floats  # jobs × causes; rows add up to `probability`


@dataclass(frozen=True, slots=True)
class Pooling:
    """The weights of forecasts and of the user's own record, and the calibration of the pooled log odds."""

    weight: float  # of a forecast
    outcomes: tuple[str, ...]  # that are forecast; empty: no forecast is used
    calibration: Calibration
    record: float = 0.0  # weight of the user's record with this very job
    base_rate: float = 0.5  # the failure rate that this record is added to

    def with_record(self, model_p: Floats, matrix: Matrix) -> Floats:
        """Pool the model's probabilities with the user's own record."""
        if not self.record:
            return model_p
        return pool_with_record(model_p, uniform_records_of(matrix), self.base_rate, self.record)

    def log_odds(
        self, model_p: Floats, given_failure: Floats, causes: Sequence[Cause], excess: Excess
    ) -> Floats:
        """Compute pooled log odds, before calibration."""
        total = _hazards(model_p, given_failure, causes, excess, self.weight, self.outcomes).sum(axis=1)
        return _log_odds_of_hazard(total)

    def to_json(self) -> dict[str, Any]:
        """Return what the bundle stores."""
        return {
            "weight": self.weight,
            "outcomes": list(self.outcomes),
            "calibration": self.calibration.to_json(),
            "record": self.record,
            "usual": self.base_rate,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Read what the bundle stores; an earlier version had no record."""
        return cls(
            float(value["weight"]),
            tuple(value["outcomes"]),
            Calibration.from_json(value["calibration"]),
            float(value.get("record", 0.0)),
            float(value.get("usual", 0.5)),
        )


def risk(
    model_p: Floats, given_failure: Floats, causes: Sequence[Cause], excess: Excess, pooling: Pooling | None
) -> Risk:
    """Compute the stated risk of some jobs.

    Parameters
    ----------
    model_p
        The model's calibrated probabilities of failure.
    given_failure
        The probability of each cause if the job fails, jobs × causes.
    excess
        The probability of exceeding the request, by the outcome that this leads to.
    pooling
        None where no forecast is used: the model's own probability is stated.
    """
    if pooling is None:
        return Risk(model_p, given_failure, model_p, model_p[:, None] * given_failure)
    hazards = _hazards(model_p, given_failure, causes, excess, pooling.weight, pooling.outcomes)
    total = hazards.sum(axis=1)
    p = pooling.calibration(_log_odds_of_hazard(total))
    return Risk(model_p, given_failure, p, p[:, None] * hazards / total[:, None])


def excess_of(forecast: UsageForecast, part: JobTable) -> dict[str, Floats]:
    """Compute each job's probability of exceeding its time limit and its memory, where forecast."""
    exceeding = {
        "limit": (Outcome.TIMEOUT, forecast.over_limit(time_limit(part))),
        "memory": (Outcome.OUT_OF_MEMORY, forecast.over_memory(memory_per_node(part))),
    }
    return {
        str(outcome): _bound_by_own_runs(p, part, resource)
        for resource, (outcome, p) in exceeding.items()
        if p is not None
    }


def _bound_by_own_runs(p: Floats, part: JobTable, resource: str) -> Floats:
    """Limit a forecast to what the user's own runs of the same request leave possible."""
    runs, hits, ratio = (
        part.column(f"user_request_{name}").astype(np.float64)
        for name in ("ended", f"{resource}15", f"{resource}_ratio")
    )
    is_far = (runs >= FEWEST_OWN) & (or_zero(hits) < CERTAIN) & (ratio >= FAR_BELOW[resource])
    return np.where(is_far, np.minimum(p, 1 / (runs + 2)), p)


def record_weight(
    model_p: Floats, records: Floats, base_rate: float, fails: Floats, weights: Floats, groups: Groups
) -> float:
    """Choose the weight of the user's own record, on jobs that the model was not fitted to."""
    has_record = ~np.isnan(records)
    group_of_row = np.unique(groups[has_record], return_inverse=True)[1]
    if has_record.sum() < FEWEST_RECORDS or len(np.unique(group_of_row)) < FEWEST_GROUPS:
        return RECORD_WEIGHT
    pooled = pool_with_record(model_p, records, base_rate)
    by_model, by_record, rows = (
        np.bincount(group_of_row, part[has_record] * weights[has_record]).astype(np.float64)
        for part in (log_losses(fails, model_p), log_losses(fails, pooled), np.ones(len(fails)))
    )
    lead, error = paired_lead(by_model, by_record, rows)
    return RECORD_WEIGHT if lead > CLEARLY * error else 0.0


def uniform_records_of(matrix: Matrix) -> Floats:
    """Count equal outcomes of the user's jobs of the same name and request, as `uniform_record` does."""
    names = matrix.names
    missing = np.full(len(matrix.values), np.nan)
    return uniform_record(lambda name: matrix.values[:, names.index(name)] if name in names else missing)


def choose_pooling(
    model_p: Floats,
    given_failure: Floats,
    causes: Sequence[Cause],
    excess: Excess,
    fails: Floats,
    weights: Floats,
    groups: Groups,
    records: Floats | None = None,
    base_rate: float = 0.5,
) -> Pooling | None:
    """Choose the weights of forecasts and own records, on jobs that neither model nor forecast was fitted to.

    Parameters
    ----------
    records
        The result of `uniform_records_of` for these jobs; None: records are not used.
    base_rate
        The failure rate of the jobs learnt from.
    """
    outcomes = _shared(excess, causes)
    record = 0.0
    if records is not None:
        record = record_weight(model_p, records, base_rate, fails, weights, groups)
        model_p = pool_with_record(model_p, records, base_rate, record)
    if not outcomes:
        return Pooling(0.0, (), Calibration(), record, base_rate) if record else None

    def pooling(weight: float) -> tuple[float, Pooling]:
        hazards = _hazards(model_p, given_failure, causes, excess, weight, outcomes)
        z = _log_odds_of_hazard(hazards.sum(axis=1))
        # A bulk of equal jobs counts as few. A straight line: the model's probabilities are calibrated
        # already, and a second curve would overfit the block (Sandia-Ross: ECE .015 → .029).
        calibration = platt_calibration(z, fails, weights**2)
        loss = np.average(log_losses(fails, calibration(z)), weights=weights)
        return float(loss), Pooling(weight, outcomes, calibration, record, base_rate)

    return min(map(pooling, WEIGHTS), key=lambda pair: pair[0])[1]


def pooling_beside_rule(excess: Excess, causes: Sequence[Cause]) -> Pooling | None:
    """Return the pooling of a simple rule: its own risk, unless the job will probably exceed its request."""
    outcomes = _shared(excess, causes)
    return Pooling(0.0, outcomes, Calibration()) if outcomes else None


def _shared(excess: Excess, causes: Sequence[Cause]) -> tuple[str, ...]:
    """Find the outcomes that are forecast and are also causes of failures."""
    return tuple(sorted(set(excess).intersection(cause.outcome for cause in causes)))


@dataclass(frozen=True, slots=True)
class RiskInputs:
    """The inputs of a risk beside the model of failure: causes, and forecasts where there are any."""

    causes: Causes
    usage: Usage | None

    def excess(self, table: JobTable, rows: Rows) -> Excess:
        """Compute the probability of exceeding each limit that this cluster enforces, for jobs of a table."""
        if self.usage is None:
            return {}
        return self.excess_of(self.usage.forecast(table, rows, only=FORECASTS), table.rows(np.asarray(rows)))

    def excess_of(self, forecast: UsageForecast, part: JobTable) -> Excess:
        """Compute the same for jobs whose usage has been forecast already."""
        if self.usage is None:
            return {}
        excess = excess_of(forecast, part)
        return {outcome: p for outcome, p in excess.items() if self.usage.is_enforced(outcome)}

    def risk(self, model_p: Floats, matrix: Matrix, excess: Excess, pooling: Pooling | None) -> Risk:
        """Compute the stated risk of jobs with these probabilities by the model."""
        pooled = pooling.with_record(model_p, matrix) if pooling else model_p
        stated = risk(pooled, self.causes.given_failure(matrix), self.causes.causes, excess, pooling)
        return replace(stated, model_probability=model_p)


def _hazards(
    model_p: Floats,
    given_failure: Floats,
    causes: Sequence[Cause],
    excess: Excess,
    weight: float,
    outcomes: Sequence[str],
) -> Floats:
    """Compute each cause's part of -log(1 - probability), pooled with the forecasts."""
    hazards = -np.log1p(-np.clip(model_p, 1e-9, 1 - CERTAIN))[:, None] * given_failure
    for outcome in outcomes:
        p = excess.get(outcome)
        if p is None:
            continue
        places = [place for place, cause in enumerate(causes) if cause.outcome == outcome]
        hazard, known = np.maximum(hazards[:, places].sum(axis=1), 1e-12), ~np.isnan(p)
        by_model, forecast = (
            log_odds(-np.expm1(-hazard), CERTAIN),
            log_odds(np.where(known, p, 0.5), CERTAIN),
        )
        surer = np.clip((p - PROBABLE) / (1 - PROBABLE), 0.0, 1.0) * (forecast > by_model)
        weights = weight + (MOST - weight) * np.where(known, surer, 0.0)
        pooled = (1 - weights) * by_model + weights * forecast
        hazards[:, places] *= np.where(known, np.logaddexp(0.0, pooled) / hazard, 1.0)[:, None]
    return np.asarray(hazards)


def _log_odds_of_hazard(hazard: Floats) -> Floats:
    """Compute the log odds of the probability 1 - exp(-hazard)."""
    return np.asarray(hazard + np.log(-np.expm1(-np.maximum(hazard, 1e-12))))
