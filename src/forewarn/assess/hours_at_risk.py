"""The node hours that failing is expected to cost: what lists of jobs sort by."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from forewarn.assess.assessment import Failure
from forewarn.assess.codes import HoursCode
from forewarn.evidence import Statement, Value
from forewarn.job.outcomes import Outcome
from forewarn.learn.heads.causes import Causes

Cause = tuple[str, str | None]
_NOTHING: Mapping[Cause, float] = MappingProxyType({})


class HoursAtRisk(NamedTuple):
    """Node hours, and how they were estimated."""

    hours: float
    by: Statement


def hours_at_risk(
    failure: Failure | None,
    foreseen: float | None,
    limit: int | None,
    nodes: int | None,
    spent: Mapping[Cause, float] = _NOTHING,
) -> HoursAtRisk | None:
    """By each cause its probability times what has run by then: at a time-out all of the limit.

    `foreseen` is its mean run time within its limit, `spent` the share of their limits that failures of each
    cause used before. Where that or the limit is not known, a failure is taken to come when the run would
    have ended: seldom later, often sooner. Where no run time is foreseen, what was asked for stands in; None
    where neither is known.
    """
    ran = foreseen if foreseen is not None or limit is None else float(limit)
    if failure is None or ran is None:
        return None
    seconds, rest = 0.0, failure.probability
    shares: dict[str, float] = {}
    for cause in failure.causes:
        share = 1.0 if cause.outcome == Outcome.TIMEOUT else spent.get((cause.outcome, cause.kind))
        if share is not None and limit is not None:
            shares.setdefault(cause.outcome, share)
            seconds += cause.probability * share * limit
        else:
            seconds += cause.probability * ran
        rest -= cause.probability
    hours = (seconds + max(rest, 0.0) * ran) * (nodes or 1) / 3600
    return HoursAtRisk(hours, _by(foreseen, limit, nodes or 1, shares))


def _by(foreseen: float | None, limit: int | None, nodes: int, shares: Mapping[str, float]) -> Statement:
    values: dict[str, Value] = {"nodes": nodes, "run_time": foreseen, "limit": limit}
    if shares.keys() - {Outcome.TIMEOUT}:
        code = HoursCode.BY_CAUSE
    else:
        code = HoursCode.BY_TIME_LIMIT if foreseen is None else HoursCode.BY_RUN_TIME
    if shares:
        values |= {"causes": tuple(shares), "shares": tuple(shares.values())}
    return Statement(code, values)


def spent_by_cause(causes: Causes | None) -> Mapping[Cause, float]:
    """The shares that a model of causes has learnt."""
    if causes is None or not causes.spent:
        return _NOTHING
    pairs = zip(causes.causes, causes.spent, strict=True)
    return {(cause.outcome, cause.kind): share for cause, share in pairs}
