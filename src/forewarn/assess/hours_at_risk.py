"""The hours at risk of a job: the node hours that a failure is expected to cost. Lists are sorted by them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from forewarn.assess.assessment import Failure
from forewarn.assess.codes import HoursCode
from forewarn.evidence import Statement, Value
from forewarn.job.outcomes import Outcome
from forewarn.learn.heads.causes import Causes

CauseKey = tuple[str, str | None]
_TIMEOUT = Outcome.TIMEOUT.value  # the member itself is found only slowly, for each cause of many jobs
_NOTHING: Mapping[CauseKey, float] = MappingProxyType({})


class HoursAtRisk(NamedTuple):
    """Node hours at risk, and how they were estimated."""

    hours: float
    by: Statement


def hours_at_risk(
    failure: Failure | None,
    expected_run_time: float | None,
    limit: int | None,
    nodes: int | None,
    spent: Mapping[CauseKey, float] = _NOTHING,
) -> HoursAtRisk | None:
    """Sum over the causes the probability times the run time until failure; a time-out uses the whole limit.

    `expected_run_time` is the mean run time within the limit, `spent` the share of the limit that failures of
    each cause used in the past. Where that share or the limit is not known, a failure is assumed to come at
    the expected end of the run: seldom later, often sooner. Without a forecast run time the limit replaces
    it; without both the result is None.
    """
    run_time = expected_run_time if expected_run_time is not None or limit is None else float(limit)
    if failure is None or run_time is None:
        return None
    seconds, rest = 0.0, failure.probability
    shares: dict[str, float] = {}
    for cause in failure.causes:
        share = 1.0 if cause.outcome == _TIMEOUT else spent.get((cause.outcome, cause.kind))
        if share is not None and limit is not None:
            shares.setdefault(cause.outcome, share)
            seconds += cause.probability * share * limit
        else:
            seconds += cause.probability * run_time
        rest -= cause.probability
    hours = (seconds + max(rest, 0.0) * run_time) * (nodes or 1) / 3600
    return HoursAtRisk(hours, _estimated_by(expected_run_time, limit, nodes or 1, shares))


def _estimated_by(
    run_time: float | None, limit: int | None, nodes: int, shares: Mapping[str, float]
) -> Statement:
    values: dict[str, Value] = {"nodes": nodes, "run_time": run_time, "limit": limit}
    if shares.keys() - {_TIMEOUT}:
        code = HoursCode.BY_CAUSE
    else:
        code = HoursCode.BY_TIME_LIMIT if run_time is None else HoursCode.BY_RUN_TIME
    if shares:
        values |= {"causes": tuple(shares), "shares": tuple(shares.values())}
    return Statement(code, values)


def spent_by_cause(causes: Causes | None) -> Mapping[CauseKey, float]:
    """Return the share of the time limit that failures of each cause used, by the cause model."""
    if causes is None or not causes.used_shares:
        return _NOTHING
    pairs = zip(causes.causes, causes.used_shares, strict=True)
    return {(cause.outcome, cause.kind): share for cause, share in pairs}
