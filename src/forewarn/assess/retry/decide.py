"""Decide whether and how to submit an ended job again.

The order of the rules: jobs that did not fail; errors that stay until somebody corrects them; too many
attempts; then by cause the smallest change that removes it, if the chance of success is worth the attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from forewarn.assess.codes import RetryCode
from forewarn.assess.node_health.fitness import fitness
from forewarn.assess.node_health.records import exclude_line
from forewarn.assess.retry.experience import RetryChance
from forewarn.assess.retry.resubmissions import RequestChange
from forewarn.assess.retry.situation import RetrySituation
from forewarn.assess.retry.sufficient_request import SufficientRequest, more_memory, more_time
from forewarn.assess.retry.verdict import RetryAction, RetryCause, RetryVerdict
from forewarn.evidence import Statement
from forewarn.job.outcomes import Outcome
from forewarn.job.units import UNLIMITED

MOST_ATTEMPTS = 5  # the first run included; later ones are too few to count
DELAY, LONGEST_DELAY = 600, 7200  # seconds after a passing cause; doubled with each attempt
_FEW_NODES = 4  # of a lost job that are all excluded, where it is not known which one failed
_PROGRAM = (RetryCause.AT_ONCE, RetryCause.PROGRAM)


@dataclass(frozen=True, slots=True)
class _Plan:
    """A way to retry, its change of the request as the history counts it, and why."""

    action: RetryAction
    because: tuple[Statement, ...]
    change: RequestChange = RequestChange.NONE
    values: Mapping[str, Any] = field(default_factory=dict)


def decide(s: RetrySituation) -> RetryVerdict:
    """Decide about one job."""
    if (reason := _no_failure(s)) is not None:
        no_answer = (RetryCode.NOT_ENDED, RetryCode.UNKNOWN_END)
        action = RetryAction.CANNOT_SAY if reason.code in no_answer else RetryAction.DO_NOT_RETRY
        return _verdict(s, action, (reason,), cause=None)
    cause = s.cause
    if (reason := _hopeless(s, cause)) is not None:
        return _verdict(s, RetryAction.DO_NOT_RETRY, (reason, *_attempts(s)), cause=cause)
    plan = _PLANS[cause](s)
    if plan.action in (RetryAction.DO_NOT_RETRY, RetryAction.CANNOT_SAY):
        return _verdict(s, plan.action, (*plan.because, *_attempts(s)), cause=cause)
    chance = s.experience.chance(
        cause, plan.change, s.chain.attempts + 1, user=s.job.user, request=s.chain.request
    )
    # Decided by what became of resubmissions, since one that fails at once costs little; stated for the same
    # script again.
    about = {"probability": chance.unchanged, "cases": _cases(chance)}
    counted = (*_attempts(s), *_counts(chance, cause))
    if chance.probability < s.least_chance:
        unlikely = Statement(
            RetryCode.UNLIKELY,
            {"probability": chance.unchanged, "least": s.least_chance, "cause": str(cause)},
        )
        return _verdict(s, RetryAction.DO_NOT_RETRY, (unlikely, *counted), cause=cause, **about)
    verdict = _verdict(s, plan.action, (*plan.because, *counted), cause=cause, **about, **plan.values)
    hours, at_risk = _hours(s, verdict)
    return replace(verdict, hours=hours, hours_at_risk=at_risk)


def _verdict(
    s: RetrySituation,
    action: RetryAction,
    evidence: tuple[Statement, ...],
    *,
    cause: RetryCause | None,
    **more: Any,
) -> RetryVerdict:
    return RetryVerdict(
        cluster=s.job.cluster,
        job_id=s.job.job_id,
        submit=s.job.submit,
        user=s.job.user,
        verdict=action,
        cause=None if cause is None else str(cause),
        family=s.report.family,
        confidence=str(s.report.confidence),
        attempts=s.chain.attempts,
        evidence=evidence,
        notes=s.report.notes,
        **more,
    )


def _no_failure(s: RetrySituation) -> Statement | None:
    """Return why there is nothing to retry, for a job that has not ended, or not by a failure."""
    job = s.job
    if job.outcome is None:
        return Statement(RetryCode.NOT_ENDED, {"state": job.state})
    if job.outcome == Outcome.COMPLETED:
        return Statement(RetryCode.COMPLETED)
    if job.outcome == Outcome.UNKNOWN:
        return Statement(RetryCode.UNKNOWN_END, {"state": job.state})
    if job.outcome == Outcome.CANCELLED and s.report.family in ("cancelled", None):
        by_owner = None if job.cancelled_by is None else job.cancelled_by == job.user
        return Statement(RetryCode.CANCELLED, {"by_owner": by_owner})
    return None


def _hopeless(s: RetrySituation, cause: RetryCause) -> Statement | None:
    """Return why no retry can be expected to help, whatever the history says."""
    if cause is RetryCause.PERMANENT:
        return Statement(RetryCode.PERMANENT, {"family": s.report.family})
    if cause in _PROGRAM and s.chain.same_way >= 2:
        return Statement(RetryCode.SAME_WAY, {"times": s.chain.same_way, "run_time": s.job.run_time})
    # A request that failed five times for lack of time was not tried once with more of it.
    raised = {RetryCause.MEMORY: s.chain.more_memory, RetryCause.TIME: s.chain.more_time}
    attempts = 1 + raised[cause] if cause in raised else s.chain.attempts
    if attempts >= MOST_ATTEMPTS:
        return Statement(RetryCode.TOO_MANY, {"attempts": attempts, "most": MOST_ATTEMPTS})
    return None


# --- by cause ----------------------------------------------------------------------------------------------


def _raise(action: RetryAction, change: RequestChange, found: SufficientRequest) -> _Plan:
    if found.values is None:
        unknown = found.because[0].code in (RetryCode.MEMORY_UNKNOWN, RetryCode.TIME_UNKNOWN)
        return _Plan(RetryAction.CANNOT_SAY if unknown else RetryAction.DO_NOT_RETRY, found.because)
    return _Plan(action, found.because, change, found.values)


def _after_memory(s: RetrySituation) -> _Plan:
    return _raise(RetryAction.MORE_MEMORY, RequestChange.MEMORY, more_memory(s))


def _after_time(s: RetrySituation) -> _Plan:
    return _raise(RetryAction.MORE_TIME, RequestChange.TIME, more_time(s))


def _after_node(s: RetrySituation) -> _Plan:
    """Exclude the nodes to blame, where they are known and enough others remain."""
    own = s.own_nodes
    exclude = s.sick_own_nodes or (own if len(own) <= _FEW_NODES else [])
    unknown = _Plan(
        RetryAction.RETRY,
        (Statement(RetryCode.NODES_UNKNOWN, {"nodes": len(own)}),),
        values={"delay": _delay(s)},
    )
    if not exclude:
        return unknown
    cluster = s.machine
    if cluster.nodes:
        left = fitness(s.job, cluster.nodes, cluster.partitions, cluster.health, exclude)
        if left.fit < left.needed:
            return unknown
    option = exclude_line(exclude)
    assert option is not None
    values = {"exclude": tuple(exclude), "options": (option,)}
    because = Statement(RetryCode.AVOID_NODES, {"nodes": option.removeprefix("--exclude=")})
    return _Plan(RetryAction.ANOTHER_NODE, (because,), values=values)


def _after_passing(s: RetrySituation) -> _Plan:
    because = Statement(RetryCode.PASSING, {"delay": _delay(s), "family": s.report.family})
    return _Plan(RetryAction.RETRY, (because,), values={"delay": _delay(s)})


def _after_preemption(_: RetrySituation) -> _Plan:
    return _Plan(RetryAction.RETRY, (Statement(RetryCode.PREEMPTED),))


def _after_program(s: RetrySituation) -> _Plan:
    return _Plan(RetryAction.RETRY, (Statement(RetryCode.PROGRAM, {"run_time": s.job.run_time}),))


_PLANS: Mapping[RetryCause, Callable[[RetrySituation], _Plan]] = MappingProxyType(
    {
        RetryCause.MEMORY: _after_memory,
        RetryCause.TIME: _after_time,
        RetryCause.NODE: _after_node,
        RetryCause.PASSING: _after_passing,
        RetryCause.PREEMPTED: _after_preemption,
        RetryCause.AT_ONCE: _after_program,
        RetryCause.PROGRAM: _after_program,
    }
)


def _delay(s: RetrySituation) -> int:
    """Return the seconds to wait until a passing cause has passed, longer with each attempt."""
    return min(DELAY << (s.chain.attempts - 1), LONGEST_DELAY)


# --- how good it is ----------------------------------------------------------------------------------------


def _attempts(s: RetrySituation) -> tuple[Statement, ...]:
    if s.chain.attempts < 2:
        return ()
    return (Statement(RetryCode.ATTEMPTS, {"attempts": s.chain.attempts}),)


def _cases(chance: RetryChance) -> int:
    return round(max(chance.cluster.tried, chance.user.tried))  # those of the user are among the cluster's


def _counts(chance: RetryChance, cause: RetryCause) -> tuple[Statement, ...]:
    """State the earlier resubmissions that a chance rests on, the closest ones first."""
    levels = (
        (RetryCode.OF_REQUEST, chance.request),
        (RetryCode.OF_USER, chance.user),
        (RetryCode.OF_CLUSTER, chance.cluster),
    )
    found = [
        Statement(
            code,
            {"tried": round(tries.tried), "completed": round(tries.completed), "users": tries.users}
            | {"cause": str(cause)},
        )
        for code, tries in levels
        if tries.tried >= 0.5  # by decisions: a fraction of one is nothing to state
    ]
    if not found:
        return (Statement(RetryCode.OF_OTHER_CLUSTERS, {"probability": chance.unchanged}),)
    if cause in _PROGRAM:
        found.append(Statement(RetryCode.PERHAPS_CHANGED))
    return tuple(found)


def _hours(s: RetrySituation, verdict: RetryVerdict) -> tuple[float | None, float | None]:
    """Estimate the node hours that the retry takes, and those that it would lose."""
    job, nodes = s.job, max(s.job.nodes_given or s.job.nodes_asked or 1, 1)
    limit = verdict.time_limit or job.time_limit
    seconds = [x for x in (limit, s.forecast.seconds) if x is not None and 0 < x < UNLIMITED]
    hours = nodes * min(seconds) / 3600 if seconds else None
    if verdict.probability is None:
        return hours, None
    lost = limit if verdict.verdict is RetryAction.MORE_TIME and limit else job.run_time or 0
    return hours, (1 - verdict.probability) * nodes * lost / 3600
