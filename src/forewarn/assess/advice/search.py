"""The search: which changes make a difference, on this cluster, and what each costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

from forewarn.assess.advice.needs import Needs
from forewarn.assess.advice.risk import Risk, risk_of
from forewarn.assess.advice.rounding import rounded_memory, rounded_time
from forewarn.assess.assessment import Advice, Change, Failure, NodeFitness
from forewarn.assess.oddness.machine import Place, limit, places
from forewarn.assess.oddness.request import Request
from forewarn.assess.oddness.words import bytes_in_words, time_in_words
from forewarn.job.record import Job, Node, Partition
from forewarn.job.units import UNLIMITED, format_duration, format_memory

WORTH = 0.05  # of risk that a change must take away
ENOUGH = 0.95  # the chance with which an advised request is enough
LEAST = 0.8  # … or this, where the cluster has no more to give


@dataclass(frozen=True, slots=True)
class Situation:
    """All that advice on one job is made of."""

    job: Job  # with its defaults filled in
    needs: Needs
    failure: Failure | None
    nodes: Sequence[Node]
    partitions: Sequence[Partition]
    fitness: NodeFitness | None = None
    memory_floor: int | None = None  # bytes on a node that the script sizes itself to
    waits: Mapping[str, float] | None = None  # seconds that jobs usually wait, by partition
    node_risk: float = 0.0  # of failing because of a sick node that it may be given

    @property
    def place(self) -> Place:
        """Where it is meant to run; of several partitions, the first."""
        found = places(self.job, self.nodes, self.partitions)
        return found[0] if found else Place("", None, tuple(self.nodes))

    @property
    def memory(self) -> int | None:
        """Bytes asked for on each node."""
        return Request.of(self.job).memory_a_node

    @property
    def limit(self) -> int | None:
        """The time limit, where there is one."""
        return limit(self.job.time_limit)


@dataclass(frozen=True, slots=True)
class Move:
    """One change, with the job and the risk that it leaves."""

    change: Change
    job: Job
    risk: Risk
    what: str
    why: str
    node_risk: float = 0.0


def advise(situation: Situation) -> tuple[Advice, ...]:
    """What to change, the best first: all that makes a difference together, then each alone."""
    before = risk_of(situation.failure, situation.needs, situation.memory, situation.limit)
    moves = [*_memory(situation, before), *_time(situation, before), *_exclude(situation, before)]
    if not moves:
        return ()
    found = [_advice(situation, before, [move]) for move in moves]
    if len(moves) > 1:
        found.insert(0, _advice(situation, before, moves))
    return tuple(sorted(found, key=lambda a: a.risk_after)) if len(moves) > 1 else tuple(found)


def _memory(s: Situation, before: Risk) -> Iterator[Move]:
    """Ask for what is enough, as far as a node of the partition has it."""
    wanted, asked = s.needs.memory_for(ENOUGH), s.memory
    if wanted is None or asked is None:
        return
    wanted = max(wanted, s.memory_floor or 0)
    most = max((node.memory for node in s.place.nodes if node.memory), default=None)
    new = rounded_memory(wanted)
    if most is not None and new > most:
        enough = s.needs.memory_for(LEAST)
        if enough is None or enough > most:
            return
        new = most
    job, text = _with_memory(s.job, new)
    over = s.needs.over_memory(new) or 0.0
    if new <= asked or text is None or before.memory - over < WORTH:
        return
    option = "mem-per-cpu" if s.job.memory_per == "cpu" else "mem"
    low, high = s.needs.memory_for(0.5), s.needs.memory_for(0.9)
    assert low is not None
    assert high is not None
    yield Move(
        Change(option=option, before=_written_memory(s.job), after=text),
        job,
        before.with_memory(over),
        f"ask for {bytes_in_words(new)} a node instead of {bytes_in_words(asked)}",
        f"such jobs need {bytes_in_words(low)}, one in ten more than {bytes_in_words(high)}: "
        f"{before.memory:.0%} run out of {bytes_in_words(asked)}, {over:.0%} out of {bytes_in_words(new)}",
    )


def _with_memory(job: Job, a_node: int) -> tuple[Job, str | None]:
    """The job with so much memory on each node, and how that is written; None: it cannot be."""
    amount = a_node
    if job.memory_per == "cpu":
        cpus = Request.of(job).cpus_a_node or 1
        amount = ceil(a_node / cpus / (1 << 20)) << 20
    elif job.memory_per == "gpu":
        return job, None
    return replace(job, memory_asked=amount), _megabytes(amount)


def _megabytes(amount: int) -> str:
    """Slurm counts whole megabytes.

    >>> _megabytes(25 << 30), _megabytes((1 << 30) + 5)
    ('25G', '1025M')
    """
    return format_memory(ceil(amount / (1 << 20)) << 20)


def _written_memory(job: Job) -> str | None:
    defaulted = "memory_asked" in (job.defaulted or "").split(",")
    return None if defaulted or job.memory_asked is None else _megabytes(job.memory_asked)


def _time(s: Situation, before: Risk) -> Iterator[Move]:
    """Ask for time that is enough, as far as the partition gives it, else in one that gives more."""
    wanted, asked = s.needs.limit_for(ENOUGH), s.limit
    if wanted is None or asked is None:
        return
    new = rounded_time(wanted)
    most = limit(s.place.partition.time_max) if s.place.partition else None
    if most is not None and new > most:
        enough = s.needs.limit_for(LEAST)
        if enough is None or enough > most:
            return
        new = most
    over = s.needs.over_limit(new) or 0.0
    if new <= asked or new >= UNLIMITED or before.time - over < WORTH:
        return
    low, high = s.needs.limit_for(0.5), s.needs.limit_for(0.9)
    assert low is not None
    assert high is not None
    defaulted = "time_limit" in (s.job.defaulted or "").split(",")
    yield Move(
        Change(
            option="time", before=None if defaulted else format_duration(asked), after=format_duration(new)
        ),
        replace(s.job, time_limit=new),
        before.with_time(over),
        f"ask for {time_in_words(new)} instead of {time_in_words(asked)}",
        f"such jobs run {time_in_words(low)}, one in ten longer than {time_in_words(high)}: "
        f"{before.time:.0%} reach {time_in_words(asked)}, {over:.0%} {time_in_words(new)}",
    )


def _exclude(s: Situation, before: Risk) -> Iterator[Move]:
    """Keep off nodes that are sick, where enough others are left."""
    fit = s.fitness
    if fit is None or not fit.sick or fit.exclude is None or fit.fit < fit.needed or s.node_risk <= 0:
        return
    yield Move(
        Change(option="exclude", before=None, after=fit.exclude.removeprefix("--exclude=")),
        s.job,
        before,
        f"keep off {'node' if len(fit.sick) == 1 else 'nodes'} {fit.exclude.removeprefix('--exclude=')}",
        "jobs fail there more often than what they are explains",
        node_risk=s.node_risk,
    )


def _advice(s: Situation, before: Risk, moves: Sequence[Move]) -> Advice:
    memory = min(move.risk.memory for move in moves)
    time = min(move.risk.time for move in moves)
    spared = max(move.node_risk for move in moves)
    after = Risk(memory, time, before.other)
    old_limit, new_limit = s.limit, max((move.job.time_limit or 0 for move in moves), default=0)
    wait = (s.waits or {}).get(s.place.name)
    return Advice(
        what=" and ".join(move.what for move in moves),
        why="; ".join(move.why for move in moves),
        changes=tuple(move.change for move in moves),
        risk_before=1 - (1 - before.whole) * (1 - s.node_risk),
        risk_after=1 - (1 - after.whole) * (1 - s.node_risk + spared),
        node_hours_before=_node_hours(s, old_limit),
        node_hours_after=_node_hours(s, new_limit or old_limit),
        wait_before=wait,
        wait_after=wait,
    )


def _node_hours(s: Situation, most: int | None) -> float | None:
    """Of a run that goes on to its usual end or its limit."""
    usual = s.needs.limit_for(0.5)
    if usual is None:
        return None
    return (s.job.nodes_asked or 1) * min(usual, most or usual) / 3600
