"""The last steps of the reasons: from the model's own probability to the one that is stated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import log

from forewarn.assess.assessment import Assessment, Failure, Reason
from forewarn.assess.codes import ReasonCode
from forewarn.assess.explanation.groups import EvidenceGroup
from forewarn.assess.explanation.histories import streak
from forewarn.assess.risk_parts import of_cause
from forewarn.evidence import Value
from forewarn.job.outcomes import Outcome

# Of risk: less is not worth a sentence. Calibration moves what is pooled by a point or so, and "one in ten
# runs longer than 2 seconds; the limit is 2 minutes" would seem to raise the risk.
LEAST = 0.015


def with_record(why: tuple[Reason, ...], model: Failure, values: Mapping[str, float]) -> tuple[Reason, ...]:
    """The reasons with the user's record of this very job, where it moved the model's probability."""
    before, after = model.model_probability, model.probability
    if before is None or abs(after - before) < LEAST or not why:
        return why
    last = Reason(
        code=ReasonCode.NAME_AND_REQUEST,
        values=streak(values, "user_name_request") or {},
        group=str(EvidenceGroup.NAME),
        weight=_log_odds(after) - _log_odds(before),
        risk_before=before,
        risk_after=after,
    )
    return (*why, last)


def with_needs(why: tuple[Reason, ...], model: Failure, made: Assessment) -> tuple[Reason, ...]:
    """The reasons, so that they end at the stated probability: needs and sick nodes come last."""
    failure = made.failure
    if failure is None or not why:
        return why
    moved = failure.probability - model.probability
    if abs(moved) < LEAST:
        return (*why[:-1], replace(why[-1], risk_after=failure.probability))
    code, values = _evidence(model, failure, made)
    last = Reason(
        code=code,
        values=values,
        group=str(EvidenceGroup.NEEDS),
        weight=_log_odds(failure.probability) - _log_odds(model.probability),
        risk_before=model.probability,
        risk_after=failure.probability,
    )
    return (*why, last)


def _evidence(model: Failure, failure: Failure, made: Assessment) -> tuple[ReasonCode, dict[str, Value]]:
    """Whichever of memory, time and nodes moved the risk most."""
    moves = {
        outcome: abs(of_cause(failure, outcome) - of_cause(model, outcome))
        for outcome in (Outcome.OUT_OF_MEMORY, Outcome.TIMEOUT, Outcome.NODE_FAIL)
    }
    most = max(moves, key=lambda outcome: moves[outcome])
    if most is Outcome.NODE_FAIL:
        return ReasonCode.SICK_NODE, {}
    run, use = made.run_time, made.resources
    if most is Outcome.TIMEOUT and run is not None and run.limit is not None:
        return ReasonCode.TIME_NEEDED, {
            "median": run.seconds.median,
            "high": run.seconds.high,
            "limit": run.limit,
        }
    if use is not None and use.memory is not None and use.memory_asked is not None:
        return ReasonCode.MEMORY_NEEDED, {
            "median": use.memory.median,
            "high": use.memory.high,
            "asked": use.memory_asked,
        }
    return ReasonCode.NEEDS, {}


def _log_odds(p: float) -> float:
    p = min(max(p, 1e-6), 1 - 1e-6)
    return log(p / (1 - p))
