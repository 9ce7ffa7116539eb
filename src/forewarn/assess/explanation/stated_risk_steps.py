"""The last reasons: the steps from the model's own probability to the stated one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import log

from forewarn.assess.assessment import Assessment, Failure, Reason
from forewarn.assess.codes import ReasonCode
from forewarn.assess.explanation.groups import EvidenceGroup
from forewarn.assess.explanation.histories import streak
from forewarn.assess.risk_parts import cause_probability
from forewarn.evidence import Value
from forewarn.job.outcomes import Outcome

# The least change of risk that is a reason. Calibration moves a pooled risk by a percentage point or so, and
# "10% of the runs exceed 2 seconds; the limit is 2 minutes" would seem to raise it.
LEAST = 0.015


def with_record(found: tuple[Reason, ...], model: Failure, values: Mapping[str, float]) -> tuple[Reason, ...]:
    """Add the user's record of the same job to the reasons, where it changed the model's probability."""
    before, after = model.model_probability, model.probability
    if before is None or abs(after - before) < LEAST or not found:
        return found
    last = Reason(
        code=ReasonCode.NAME_AND_REQUEST,
        values=streak(values, "user_name_request") or {},
        group=str(EvidenceGroup.NAME),
        weight=_log_odds(after) - _log_odds(before),
        risk_before=before,
        risk_after=after,
    )
    return (*found, last)


def with_needs(found: tuple[Reason, ...], model: Failure, assessment: Assessment) -> tuple[Reason, ...]:
    """Add usage forecasts and sick nodes as the last reason, so that the reasons end at the stated risk."""
    failure = assessment.failure
    if failure is None or not found:
        return found
    moved = failure.probability - model.probability
    if abs(moved) < LEAST:
        return (*found[:-1], replace(found[-1], risk_after=failure.probability))
    code, values = _evidence(model, failure, assessment)
    last = Reason(
        code=code,
        values=values,
        group=str(EvidenceGroup.NEEDS),
        weight=_log_odds(failure.probability) - _log_odds(model.probability),
        risk_before=model.probability,
        risk_after=failure.probability,
    )
    return (*found, last)


def _evidence(
    model: Failure, failure: Failure, assessment: Assessment
) -> tuple[ReasonCode, dict[str, Value]]:
    """Return the evidence of memory, time or nodes, whichever changed the risk most."""
    changes = {
        outcome: abs(cause_probability(failure, outcome) - cause_probability(model, outcome))
        for outcome in (Outcome.OUT_OF_MEMORY, Outcome.TIMEOUT, Outcome.NODE_FAIL)
    }
    most = max(changes, key=lambda outcome: changes[outcome])
    if most is Outcome.NODE_FAIL:
        return ReasonCode.SICK_NODE, {}
    run, use = assessment.run_time, assessment.resources
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
