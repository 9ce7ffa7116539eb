"""Single changes that could lower the risk: more memory, more time, more nodes, excluding sick nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from types import MappingProxyType

from forewarn.assess.advice.rounding import rounded_memory, rounded_time
from forewarn.assess.advice.situation import Situation, counted, most_memory
from forewarn.assess.assessment import Change, Failure
from forewarn.assess.codes import CauseCode, StepCode
from forewarn.assess.oddness.partitions import PartitionNodes, limit
from forewarn.assess.risk_parts import cause_probability
from forewarn.evidence import Statement
from forewarn.job.outcomes import Outcome
from forewarn.job.record import Job
from forewarn.job.units import UNLIMITED, format_duration, format_memory

# The least reduction of risk that justifies a change, and the probability that the new request suffices.
# Chosen on two seeds of the simulator's default scenario: a larger probability averts more failures and
# requests more (bench/advice.py).
WORTH = 0.03
ENOUGH = 0.97
LEAST = 0.7  # the probability to accept where the cluster cannot offer more
# Smallest and largest factor of a new request (unless such jobs typically need more): a larger step averts a
# few more failures and wastes as much as it saves.
STEP, LEAP = 1.25, 3.0
_LEAST_TAIL = 0.002  # smallest probability that the model can resolve
_FURTHEST = 0.998  # highest quantile level to use
_ANY = (Outcome.OUT_OF_MEMORY, Outcome.TIMEOUT, Outcome.NODE_FAIL)
_CAUSES_OF: Mapping[str, tuple[Outcome, ...]] = MappingProxyType(
    {"time": (Outcome.TIMEOUT,), "exclude": (Outcome.NODE_FAIL,)}
    | dict.fromkeys(("mem", "mem-per-cpu", "nodes"), (Outcome.OUT_OF_MEMORY,))
)  # a change of partition affects all of them


@dataclass(frozen=True, slots=True)
class Move:
    """One change, with its step and evidence."""

    change: Change
    step: Statement
    because: Statement
    limit: int | None = None  # the new time limit
    nodes: int | None = None  # the new number of nodes


def moves(s: Situation, place: PartitionNodes) -> Iterator[Move]:
    """Yield every change that could help the job in one partition."""
    more_memory = list(_memory(s, place))
    yield from more_memory or _spread(s, place)
    yield from _time(s, place)
    if place == s.place:
        yield from _exclude(s)


def targets(plan: Sequence[Move]) -> tuple[Outcome, ...]:
    """Return the causes of failure that changes address."""
    return tuple(dict.fromkeys(cause for move in plan for cause in _CAUSES_OF.get(move.change.option, _ANY)))


def addressable_risk(failure: Failure) -> float:
    """Return the part of a risk that depends on the request."""
    return cause_probability(failure, *_ANY)


def _memory(s: Situation, place: PartitionNodes) -> Iterator[Move]:
    """Propose a sufficient memory request, as far as the nodes of the partition have it."""
    requested, risk = s.memory, cause_probability(s.failure, Outcome.OUT_OF_MEMORY)
    if requested is None or risk < WORTH or s.job.memory_per == "gpu":
        return
    most, floor = most_memory(s.job, place), s.memory_floor or 0
    needs = s.needs
    new = _raised(requested, risk, needs.over_memory, needs.memory_for, rounded_memory, most, floor)
    if new is None:
        return
    option = "mem-per-cpu" if s.job.memory_per == "cpu" else "mem"
    written = megabytes(ceil(new / counted(s.job)))
    yield Move(
        Change(option=option, before=written_memory(s.job), after=written),
        Statement(StepCode.MORE_MEMORY, {"asked": requested, "new": new}),
        _why_more(needs.memory_for, requested, risk, *_OF_MEMORY),
    )


def _spread(s: Situation, place: PartitionNodes) -> Iterator[Move]:
    """Propose twice as many nodes where no node has enough memory: each then needs half of it."""
    job, nodes, risk = s.job, s.job.nodes_asked or 1, cause_probability(s.failure, Outcome.OUT_OF_MEMORY)
    requested, most = s.memory, most_memory(replace(s.job, nodes_asked=2 * nodes), place)
    if requested is None or not most or risk < WORTH or (job.tasks_asked or 1) < 2 * nodes:
        return
    allowed = limit(place.partition.nodes_max) if place.partition else None
    if s.needs.over_memory(requested) is None or (allowed is not None and 2 * nodes > allowed):
        return
    yield Move(
        Change(option="nodes", before=str(nodes), after=str(2 * nodes)),
        Statement(StepCode.MORE_NODES, {"tasks": job.tasks_asked, "asked": nodes, "new": 2 * nodes}),
        usual(s.needs.memory_for, CauseCode.MEMORY_IS_SPREAD),
        nodes=2 * nodes,
    )


def _time(s: Situation, place: PartitionNodes) -> Iterator[Move]:
    """Propose a sufficient time limit, as far as the partition allows it."""
    requested, risk = s.limit, cause_probability(s.failure, Outcome.TIMEOUT)
    if requested is None or risk < WORTH:
        return
    most = limit(place.partition.time_max) if place.partition else None
    new = _raised(requested, risk, s.needs.over_limit, s.needs.limit_for, rounded_time, most)
    if new is None or new >= UNLIMITED:
        return
    yield Move(
        Change(option="time", before=written_time(s.job), after=format_duration(new)),
        Statement(StepCode.MORE_TIME, {"asked": requested, "new": new}),
        _why_more(s.needs.limit_for, requested, risk, *_OF_TIME),
        limit=new,
    )


def _exclude(s: Situation) -> Iterator[Move]:
    """Propose to exclude sick nodes, where enough others remain."""
    fit = s.fitness
    if fit is None or fit.exclude is None or fit.fit < fit.needed or s.node_risk < WORTH:
        return
    nodes = fit.exclude.removeprefix("--exclude=")
    yield Move(
        Change(option="exclude", before=None, after=nodes),
        Statement(StepCode.AVOID_NODES, {"nodes": nodes, "count": len(fit.sick)}),
        Statement(CauseCode.JOBS_FAIL_THERE),
    )


def _raised(
    requested: float,
    risk: float,
    over: Callable[[float], float | None],
    enough: Callable[[float], float | None],
    rounded: Callable[[float], int],
    most: int | None,
    floor: int = 0,
) -> int | None:
    """Return a larger request, or None where none is better.

    The job exceeds its request with probability `risk`, which may be larger than the forecast alone says: the
    failure model knows the outcomes of such jobs. Then the job is among those that need most, and its
    sufficient request lies further out: at the quantile below which a share ENOUGH of the jobs that exceed
    the old request stays.
    """
    exceeds = over(requested)
    if exceeds is None:
        return None
    share = min(1.0, max(exceeds, _LEAST_TAIL) / risk)
    sufficient, least = (enough(min(1.0 - (1.0 - level) * share, _FURTHEST)) for level in (ENOUGH, LEAST))
    if sufficient is None or least is None:
        return None
    median = enough(0.5) or 0.0
    new = rounded(max(min(sufficient, max(LEAP * requested, 2 * median)), requested * STEP, floor))
    if most is not None and new > most:
        new = most
    if new <= requested or new < max(min(least, LEAP * requested), floor):
        return None
    return new


_OF_MEMORY = (CauseCode.MEMORY_OF_SUCH_JOBS, CauseCode.SUCH_JOBS_RAN_OUT_OF_MEMORY)
_OF_TIME = (CauseCode.RUN_TIME_OF_SUCH_JOBS, CauseCode.SUCH_JOBS_REACHED_LIMIT)


def _why_more(
    enough: Callable[[float], float | None],
    requested: float,
    risk: float,
    by_use: CauseCode,
    by_outcome: CauseCode,
) -> Statement:
    """Return the evidence for a larger request: what such jobs use, unless 90% of them use less than this.

    Then the risk comes from the outcomes of earlier jobs, for example killed before their use was sampled.
    """
    high = enough(0.9)
    if high is None or high >= requested:
        return usual(enough, by_use)
    return Statement(by_outcome, {"risk": risk})


def usual(enough: Callable[[float], float | None], code: CauseCode) -> Statement:
    """State the median and 90th percentile of what such jobs use."""
    median, high = enough(0.5), enough(0.9)
    assert median is not None
    assert high is not None
    return Statement(code, {"median": median, "high": high})


def megabytes(amount: int) -> str:
    """Format an amount of memory for sbatch, in whole megabytes.

    >>> megabytes(25 << 30), megabytes((1 << 30) + 5)
    ('25G', '1025M')
    """
    return format_memory(ceil(amount / (1 << 20)) << 20)


def written_memory(job: Job) -> str | None:
    """Format the requested memory of a job; None where it was left to the site."""
    defaulted = "memory_asked" in (job.defaulted or "").split(",")
    return None if defaulted or job.memory_asked is None else megabytes(job.memory_asked)


def written_time(job: Job) -> str | None:
    """Format the time limit of a job; None where it was left to the site."""
    defaulted = "time_limit" in (job.defaulted or "").split(",")
    return None if defaulted or job.time_limit is None else format_duration(job.time_limit)
