"""Single changes that could help: more memory, more time, more nodes, keeping off sick nodes."""

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
from forewarn.assess.risk_parts import of_cause
from forewarn.evidence import Statement
from forewarn.job.outcomes import Outcome
from forewarn.job.record import Job
from forewarn.job.units import UNLIMITED, format_duration, format_memory

# Of risk that a change must take away, and the chance with which what it asks for is enough. Chosen on two
# seeds of the simulator's default scenario: a larger chance averts more and asks for more (bench/advice.py).
WORTH = 0.03
ENOUGH = 0.97
LEAST = 0.7  # … or this, where the cluster has no more to give
# Times what was asked, at least (less is not worth a word) and at most, unless such jobs typically need more:
# a longer leap averts a few more failures and wastes as much as it saves.
STEP, LEAP = 1.25, 3.0
_LEAST_TAIL = 0.002  # a chance that is smaller than the model can tell
_FURTHEST = 0.998
_ANY = (Outcome.OUT_OF_MEMORY, Outcome.TIMEOUT, Outcome.NODE_FAIL)
_MEANT_FOR: Mapping[str, tuple[Outcome, ...]] = MappingProxyType(
    {"time": (Outcome.TIMEOUT,), "exclude": (Outcome.NODE_FAIL,)}
    | dict.fromkeys(("mem", "mem-per-cpu", "nodes"), (Outcome.OUT_OF_MEMORY,))
)  # another partition changes all of them


@dataclass(frozen=True, slots=True)
class Move:
    """One change."""

    change: Change
    step: Statement
    because: Statement
    limit: int | None = None  # the new time limit
    nodes: int | None = None  # the new number of nodes


def moves(s: Situation, place: PartitionNodes) -> Iterator[Move]:
    """All that could help, in one place."""
    more = list(_memory(s, place))
    yield from more or _spread(s, place)
    yield from _time(s, place)
    if place == s.place:
        yield from _exclude(s)


def targets(plan: Sequence[Move]) -> tuple[Outcome, ...]:
    """The causes of failure that changes are meant for."""
    return tuple(dict.fromkeys(cause for move in plan for cause in _MEANT_FOR.get(move.change.option, _ANY)))


def addressed(failure: Failure) -> float:
    """The part of a risk that a request changes."""
    return of_cause(failure, *_ANY)


def _memory(s: Situation, place: PartitionNodes) -> Iterator[Move]:
    """Ask for what is enough, as far as nodes of the partition have it."""
    asked, risk = s.memory, of_cause(s.failure, Outcome.OUT_OF_MEMORY)
    if asked is None or risk < WORTH or s.job.memory_per == "gpu":
        return
    most, floor = most_memory(s.job, place), s.memory_floor or 0
    needs = s.needs
    new = _raised(asked, risk, needs.over_memory, needs.memory_for, rounded_memory, most, floor)
    if new is None:
        return
    option = "mem-per-cpu" if s.job.memory_per == "cpu" else "mem"
    written = megabytes(ceil(new / counted(s.job)))
    yield Move(
        Change(option=option, before=written_memory(s.job), after=written),
        Statement(StepCode.MORE_MEMORY, {"asked": asked, "new": new}),
        _why_more(needs.memory_for, asked, risk, *_OF_MEMORY),
    )


def _spread(s: Situation, place: PartitionNodes) -> Iterator[Move]:
    """Where no node has enough: the same tasks on twice as many nodes need half of it on each."""
    job, nodes, risk = s.job, s.job.nodes_asked or 1, of_cause(s.failure, Outcome.OUT_OF_MEMORY)
    asked, most = s.memory, most_memory(replace(s.job, nodes_asked=2 * nodes), place)
    if asked is None or not most or risk < WORTH or (job.tasks_asked or 1) < 2 * nodes:
        return
    allowed = limit(place.partition.nodes_max) if place.partition else None
    if s.needs.over_memory(asked) is None or (allowed is not None and 2 * nodes > allowed):
        return
    yield Move(
        Change(option="nodes", before=str(nodes), after=str(2 * nodes)),
        Statement(StepCode.MORE_NODES, {"tasks": job.tasks_asked, "asked": nodes, "new": 2 * nodes}),
        usual(s.needs.memory_for, CauseCode.MEMORY_IS_SPREAD),
        nodes=2 * nodes,
    )


def _time(s: Situation, place: PartitionNodes) -> Iterator[Move]:
    """Ask for time that is enough, as far as the partition gives it."""
    asked, risk = s.limit, of_cause(s.failure, Outcome.TIMEOUT)
    if asked is None or risk < WORTH:
        return
    most = limit(place.partition.time_max) if place.partition else None
    new = _raised(asked, risk, s.needs.over_limit, s.needs.limit_for, rounded_time, most)
    if new is None or new >= UNLIMITED:
        return
    yield Move(
        Change(option="time", before=written_time(s.job), after=format_duration(new)),
        Statement(StepCode.MORE_TIME, {"asked": asked, "new": new}),
        _why_more(s.needs.limit_for, asked, risk, *_OF_TIME),
        limit=new,
    )


def _exclude(s: Situation) -> Iterator[Move]:
    """Keep off nodes that are sick, where enough others are left."""
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
    asked: float,
    risk: float,
    over: Callable[[float], float | None],
    enough: Callable[[float], float | None],
    rounded: Callable[[float], int],
    most: int | None,
    floor: int = 0,
) -> int | None:
    """What to ask for instead; None where there is no better.

    The job outgrows what it asks for with `risk`, which may be more than its needs alone say: the model of
    failures knows what happened to jobs like it. Then it is among those that need most, and what is enough
    for it lies further out: at the chance at which, of those that outgrow the request, ENOUGH do not outgrow
    the new one.
    """
    outgrows = over(asked)
    if outgrows is None:
        return None
    share = min(1.0, max(outgrows, _LEAST_TAIL) / risk)
    wanted, least = (enough(min(1.0 - (1.0 - level) * share, _FURTHEST)) for level in (ENOUGH, LEAST))
    if wanted is None or least is None:
        return None
    median = enough(0.5) or 0.0
    new = rounded(max(min(wanted, max(LEAP * asked, 2 * median)), asked * STEP, floor))
    if most is not None and new > most:
        new = most
    if new <= asked or new < max(min(least, LEAP * asked), floor):
        return None
    return new


_OF_MEMORY = (CauseCode.MEMORY_OF_SUCH_JOBS, CauseCode.SUCH_JOBS_RAN_OUT_OF_MEMORY)
_OF_TIME = (CauseCode.RUN_TIME_OF_SUCH_JOBS, CauseCode.SUCH_JOBS_REACHED_LIMIT)


def _why_more(
    enough: Callable[[float], float | None],
    asked: float,
    risk: float,
    by_use: CauseCode,
    by_endings: CauseCode,
) -> Statement:
    """Why more is asked for: what such jobs take, unless nine in ten take less than was asked for.

    Then the risk comes from how earlier ones ended, as of jobs that are killed before their use is sampled.
    """
    high = enough(0.9)
    if high is None or high >= asked:
        return usual(enough, by_use)
    return Statement(by_endings, {"risk": risk})


def usual(enough: Callable[[float], float | None], code: CauseCode) -> Statement:
    """What jobs like it take."""
    median, high = enough(0.5), enough(0.9)
    assert median is not None
    assert high is not None
    return Statement(code, {"median": median, "high": high})


def megabytes(amount: int) -> str:
    """As Slurm is asked for it, in whole megabytes.

    >>> megabytes(25 << 30), megabytes((1 << 30) + 5)
    ('25G', '1025M')
    """
    return format_memory(ceil(amount / (1 << 20)) << 20)


def written_memory(job: Job) -> str | None:
    """As asked; None where it was left to the site."""
    defaulted = "memory_asked" in (job.defaulted or "").split(",")
    return None if defaulted or job.memory_asked is None else megabytes(job.memory_asked)


def written_time(job: Job) -> str | None:
    """The same of the time limit."""
    defaulted = "time_limit" in (job.defaulted or "").split(",")
    return None if defaulted or job.time_limit is None else format_duration(job.time_limit)
