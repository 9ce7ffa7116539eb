"""The node hours that failing is expected to cost: what lists of jobs sort by."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from forewarn.assess.assessment import Failure
from forewarn.job.outcomes import Outcome
from forewarn.learn.causes import Causes

Cause = tuple[str, str | None]
_NOTHING: Mapping[Cause, float] = MappingProxyType({})


def hours_at_risk(
    failure: Failure | None,
    ran: float | None,
    limit: int | None,
    nodes: int | None,
    spent: Mapping[Cause, float] = _NOTHING,
) -> float | None:
    """By each cause its probability times what has run by then: at a time-out all of the limit.

    `ran` is how long it is expected to run within its limit. `spent` is the share of their limits that failures of each cause used before. Where that or the limit is
    not known, a failure is taken to come when the run would have ended: seldom later, often sooner. Where no
    run time is foreseen, what was asked for stands in; None where neither is known.
    """
    if failure is None or ran is None:
        return None
    seconds, rest = 0.0, failure.probability
    for cause in failure.causes:
        share = 1.0 if cause.outcome == Outcome.TIMEOUT else spent.get((cause.outcome, cause.kind))
        seconds += cause.probability * (share * limit if share is not None and limit is not None else ran)
        rest -= cause.probability
    return (seconds + max(rest, 0.0) * ran) * (nodes or 1) / 3600


def spent_by_cause(causes: Causes | None) -> Mapping[Cause, float]:
    """The shares that a model of causes has learnt."""
    if causes is None or not causes.spent:
        return _NOTHING
    pairs = zip(causes.causes, causes.spent, strict=True)
    return {(cause.outcome, cause.kind): share for cause, share in pairs}
