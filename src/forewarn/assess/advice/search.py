"""The search: which changes make a difference, on this cluster, and what each costs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
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

# Of risk that a change must take away, and the chance with which what it asks for is enough. Chosen on two
# seeds of the simulator's default scenario: a larger chance averts more and asks for more (bench/advice.py).
WORTH = 0.03
ENOUGH = 0.97
LEAST = 0.7  # … or this, where the cluster has no more to give
STEP = 1.25  # times what was asked, at least: less is not worth a word
_LEAST_TAIL = 0.002  # a chance that is smaller than the model can tell
_FURTHEST = 0.998


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
    # Partitions that are open to the user, asked for only where they matter: those of their earlier jobs.
    may_use: Callable[[], Collection[str]] = frozenset

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
    """What to change, the best first: all that makes a difference together, then each alone.

    Another partition is advised only where the job's own cannot even halve the risk.
    """
    before = risk_of(situation.failure, situation.needs, situation.memory, situation.limit)
    moves = list(_moves(situation, before, situation.place))
    found = [_advice(situation, before, [move]) for move in moves]
    if len(moves) > 1:
        found.append(_advice(situation, before, moves))
    best = min((advice.risk_after for advice in found), default=before.whole)
    if max(before.memory, before.time) >= WORTH and best > before.whole / 2:
        found += _elsewhere(situation, before, best)
    return tuple(sorted(found, key=lambda advice: (round(advice.risk_after, 3), len(advice.changes))))


def _moves(s: Situation, before: Risk, place: Place) -> Iterator[Move]:
    yield from _memory(s, before, place)
    yield from _time(s, before, place)
    if place == s.place:
        yield from _exclude(s, before)


def _elsewhere(s: Situation, before: Risk, best: float) -> Iterator[Advice]:
    """The same in each other partition that can take the job, where that leaves clearly less risk."""
    allowed = s.may_use()
    for partition in s.partitions:
        if partition.name == s.place.name or partition.name not in allowed or partition.state == "DOWN":
            continue
        job = replace(s.job, partition=partition.name)
        (place,) = places(job, s.nodes, s.partitions)
        longest = limit(partition.time_max)
        # Nodes with GPUs are for those who use them.
        fits = any(Request.of(job).fits(node) and (job.gpus_asked or not node.gpus) for node in place.nodes)
        if not fits or (longest is not None and (s.limit or 0) > longest):
            continue
        change = Change(option="partition", before=s.job.partition, after=partition.name)
        there = Move(change, job, before, f"use partition {partition.name}", "it has what this job needs")
        made = _advice(s, before, [there, *_moves(s, before, place)])
        if made.risk_after <= best - WORTH and len(made.changes) > 1:
            yield replace(made, wait_after=(s.waits or {}).get(partition.name))


def _memory(s: Situation, before: Risk, place: Place) -> Iterator[Move]:
    """Ask for what is enough, as far as a node of the partition has it."""
    asked = s.memory
    if asked is None or before.memory < WORTH:
        return
    most = max((node.memory for node in place.nodes if node.memory), default=None)
    raised = _raised(asked, before.memory, s.needs.over_memory, s.needs.memory_for, rounded_memory, most)
    if raised is None:
        return
    new, over = max(raised[0], rounded_memory(s.memory_floor or 0)), raised[1]
    job, text = _with_memory(s.job, new)
    if text is None or before.memory - over < WORTH:
        return
    option = "mem-per-cpu" if s.job.memory_per == "cpu" else "mem"
    yield Move(
        Change(option=option, before=_written_memory(s.job), after=text),
        job,
        before.with_memory(over),
        f"ask for {bytes_in_words(new)} a node instead of {bytes_in_words(asked)}",
        _why(s.needs.memory_for, bytes_in_words, "need", before.memory, asked, over, new, "run out of"),
    )


def _raised(
    asked: float,
    risk: float,
    over: Callable[[float], float | None],
    enough: Callable[[float], float | None],
    rounded: Callable[[float], int],
    most: int | None,
) -> tuple[int, float] | None:
    """What to ask for instead, and the risk that is left; None where there is no better.

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
    new = rounded(max(wanted, asked * STEP))
    if most is not None and new > most:
        new = most
    if new <= asked or new < least:
        return None
    left = over(new) or 0.0
    return new, risk * min(1.0, left / max(outgrows, _LEAST_TAIL))


def _why(
    enough: Callable[[float], float | None],
    words: Callable[[float], str],
    need: str,
    risk: float,
    asked: float,
    over: float,
    new: float,
    outgrow: str,
) -> str:
    median, high = enough(0.5), enough(0.9)
    assert median is not None
    assert high is not None
    return (
        f"such jobs {need} {words(median)}, one in ten more than {words(high)}: "
        f"{risk:.0%} {outgrow} {words(asked)}, {over:.0%} {outgrow} {words(new)}"
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


def _time(s: Situation, before: Risk, place: Place) -> Iterator[Move]:
    """Ask for time that is enough, as far as the partition gives it."""
    asked = s.limit
    if asked is None or before.time < WORTH:
        return
    most = limit(place.partition.time_max) if place.partition else None
    raised = _raised(asked, before.time, s.needs.over_limit, s.needs.limit_for, rounded_time, most)
    if raised is None or raised[0] >= UNLIMITED or before.time - raised[1] < WORTH:
        return
    new, over = raised
    defaulted = "time_limit" in (s.job.defaulted or "").split(",")
    written = None if defaulted else format_duration(asked)
    yield Move(
        Change(option="time", before=written, after=format_duration(new)),
        replace(s.job, time_limit=new),
        before.with_time(over),
        f"ask for {time_in_words(new)} instead of {time_in_words(asked)}",
        _why(s.needs.limit_for, time_in_words, "run", before.time, asked, over, new, "reach"),
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
