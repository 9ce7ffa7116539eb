"""The last steps of the reasons: from the model's own probability to the one that is stated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import log

from forewarn.assess.assessment import Assessment, Failure, Reason
from forewarn.assess.explanation.amounts import duration, memory
from forewarn.assess.explanation.groups import Group
from forewarn.assess.explanation.histories import streak
from forewarn.assess.stated import of_cause
from forewarn.job.outcomes import Outcome

# Of risk: less is not worth a sentence. Calibration moves what is pooled by a point or so, and "one in ten
# runs longer than 2 seconds; the limit is 2 minutes" would seem to raise the risk.
LEAST = 0.015


def with_record(
    why: tuple[Reason, ...], model: Failure, values: Mapping[str, float], whose: str
) -> tuple[Reason, ...]:
    """The reasons with the user's record of this very job, where it moved the model's probability."""
    before, after = model.model_probability, model.probability
    if before is None or abs(after - before) < LEAST or not why:
        return why
    what = streak(values, "user_name_request", whose, "of this name and request") or "your own record"
    last = Reason(
        what=what,
        group=str(Group.NAME),
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
    last = Reason(
        what=_what(model, failure, made),
        group=str(Group.NEEDS),
        weight=_log_odds(failure.probability) - _log_odds(model.probability),
        risk_before=model.probability,
        risk_after=failure.probability,
    )
    return (*why, last)


def _what(model: Failure, failure: Failure, made: Assessment) -> str:
    """Whichever of memory, time and nodes moved the risk most."""
    moves = {
        outcome: abs(of_cause(failure, outcome) - of_cause(model, outcome))
        for outcome in (Outcome.OUT_OF_MEMORY, Outcome.TIMEOUT, Outcome.NODE_FAIL)
    }
    most = max(moves, key=lambda outcome: moves[outcome])
    if most is Outcome.NODE_FAIL:
        return "it may be given a sick node"
    run, use = made.run_time, made.resources
    if most is Outcome.TIMEOUT and run is not None and run.limit is not None:
        return (
            f"half of such jobs run longer than {duration(run.seconds.median)}, one in ten longer than "
            f"{duration(run.seconds.high)}; the limit is {duration(run.limit)}"
        )
    if use is not None and use.memory is not None and use.memory_asked is not None:
        return (
            f"half of such jobs need more than {memory(use.memory.median)} a node, one in ten more than "
            f"{memory(use.memory.high)}; {memory(use.memory_asked)} are requested"
        )
    return "what such jobs need, against what is requested"


def _log_odds(p: float) -> float:
    p = min(max(p, 1e-6), 1 - 1e-6)
    return log(p / (1 - p))
