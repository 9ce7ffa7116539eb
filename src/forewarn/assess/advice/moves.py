"""Single changes: more memory, more time, keeping off sick nodes; each with the risk that it leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import ceil

from forewarn.assess.advice.risk import Risk
from forewarn.assess.advice.rounding import rounded_memory, rounded_time
from forewarn.assess.advice.situation import Situation, counted, most_memory
from forewarn.assess.assessment import Change
from forewarn.assess.oddness.machine import Place, limit
from forewarn.assess.oddness.words import bytes_in_words, time_in_words
from forewarn.job.record import Job
from forewarn.job.units import UNLIMITED, format_duration, format_memory

# Of risk that a change must take away, and the chance with which what it asks for is enough. Chosen on two
# seeds of the simulator's default scenario: a larger chance averts more and asks for more (bench/advice.py).
WORTH = 0.03
ENOUGH = 0.97
LEAST = 0.7  # … or this, where the cluster has no more to give
# Times what was asked, at least (less is not worth a word) and at most, unless such jobs need more as a rule:
# a longer leap averts a few more failures and wastes as much as it saves.
STEP, LEAP = 1.25, 3.0
_LEAST_TAIL = 0.002  # a chance that is smaller than the model can tell
_FURTHEST = 0.998


@dataclass(frozen=True, slots=True)
class Move:
    """One change, with what it leaves."""

    change: Change
    risk: Risk
    what: str
    why: str
    limit: int | None = None  # the new time limit
    nodes: int | None = None  # the new number of nodes
    spared: float = 0.0  # of the risk of a sick node


def moves(s: Situation, before: Risk, place: Place) -> Iterator[Move]:
    """All that help, in one place."""
    more = list(_memory(s, before, place))
    yield from more or _spread(s, before, place)
    yield from _time(s, before, place)
    if place == s.place:
        yield from _exclude(s, before)


def _memory(s: Situation, before: Risk, place: Place) -> Iterator[Move]:
    """Ask for what is enough, as far as nodes of the partition have it."""
    asked = s.memory
    if asked is None or before.memory < WORTH or s.job.memory_per == "gpu":
        return
    most, floor = most_memory(s.job, place), s.memory_floor or 0
    raised = _raised(
        asked, before.memory, s.needs.over_memory, s.needs.memory_for, rounded_memory, most, floor
    )
    if raised is None or before.memory - raised[1] < WORTH:
        return
    new, over = raised
    option = "mem-per-cpu" if s.job.memory_per == "cpu" else "mem"
    written = _megabytes(ceil(new / counted(s.job)))
    yield Move(
        Change(option=option, before=_written_memory(s.job), after=written),
        before.with_memory(over),
        f"ask for {bytes_in_words(new)} a node instead of {bytes_in_words(asked)}",
        _why(s.needs.memory_for, bytes_in_words, "need")
        + _against(s.needs.over_memory(asked), before.memory, over, bytes_in_words, asked, new, "run out of"),
    )


def _spread(s: Situation, before: Risk, place: Place) -> Iterator[Move]:
    """Where no node has enough: the same tasks on twice as many nodes need half of it on each."""
    job, nodes = s.job, s.job.nodes_asked or 1
    asked, most = s.memory, most_memory(replace(s.job, nodes_asked=2 * nodes), place)
    if asked is None or not most or before.memory < WORTH or (job.tasks_asked or 1) < 2 * nodes:
        return
    allowed = limit(place.partition.nodes_max) if place.partition else None
    on_each = min(asked, most) if job.memory_per != "cpu" else asked / 2
    over = s.needs.over_memory(2 * on_each)
    if over is None or before.memory - over < WORTH or (allowed is not None and 2 * nodes > allowed):
        return
    yield Move(
        Change(option="nodes", before=str(nodes), after=str(2 * nodes)),
        before.with_memory(over),
        f"spread its {job.tasks_asked} tasks over {2 * nodes} nodes instead of {nodes}",
        _why(s.needs.memory_for, bytes_in_words, "need") + " on each node, and half of that on twice as many",
        nodes=2 * nodes,
    )


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
    yield Move(
        Change(option="time", before=_written_time(s.job), after=format_duration(new)),
        before.with_time(over),
        f"ask for {time_in_words(new)} instead of {time_in_words(asked)}",
        _why(s.needs.limit_for, time_in_words, "run")
        + _against(s.needs.over_limit(asked), before.time, over, time_in_words, asked, new, "reach"),
        limit=new,
    )


def _exclude(s: Situation, before: Risk) -> Iterator[Move]:
    """Keep off nodes that are sick, where enough others are left."""
    fit = s.fitness
    if fit is None or fit.exclude is None or fit.fit < fit.needed or s.node_risk < WORTH:
        return
    nodes = fit.exclude.removeprefix("--exclude=")
    yield Move(
        Change(option="exclude", before=None, after=nodes),
        before,
        f"keep off {'node' if len(fit.sick) == 1 else 'nodes'} {nodes}",
        "jobs fail there more often than what they are explains",
        spared=s.node_risk,
    )


def _raised(
    asked: float,
    risk: float,
    over: Callable[[float], float | None],
    enough: Callable[[float], float | None],
    rounded: Callable[[float], int],
    most: int | None,
    floor: int = 0,
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
    usual = enough(0.5) or 0.0
    new = rounded(max(min(wanted, max(LEAP * asked, 2 * usual)), asked * STEP, floor))
    if most is not None and new > most:
        new = most
    if new <= asked or new < max(min(least, LEAP * asked), floor):
        return None
    left = over(new) or 0.0
    return new, risk * min(1.0, left / max(outgrows, _LEAST_TAIL))


def _why(enough: Callable[[float], float | None], words: Callable[[float], str], need: str) -> str:
    median, high = enough(0.5), enough(0.9)
    assert median is not None
    assert high is not None
    return f"such jobs {need} {words(median)}, one in ten more than {words(high)}"


def _against(
    by_needs: float | None,
    risk: float,
    left: float,
    words: Callable[[float], str],
    asked: float,
    new: float,
    outgrow: str,
) -> str:
    """What is outgrown, and by whose word: the needs above, or how jobs like it have ended."""
    whose = "" if (by_needs or 0.0) >= 0.8 * risk else "by how jobs like it have ended "
    return f": {whose}{risk:.0%} {outgrow} {words(asked)}, and {left:.0%} would {outgrow} {words(new)}"


def _megabytes(amount: int) -> str:
    """Slurm counts whole megabytes.

    >>> _megabytes(25 << 30), _megabytes((1 << 30) + 5)
    ('25G', '1025M')
    """
    return format_memory(ceil(amount / (1 << 20)) << 20)


def _written_memory(job: Job) -> str | None:
    """As asked; None where it was left to the site."""
    defaulted = "memory_asked" in (job.defaulted or "").split(",")
    return None if defaulted or job.memory_asked is None else _megabytes(job.memory_asked)


def _written_time(job: Job) -> str | None:
    defaulted = "time_limit" in (job.defaulted or "").split(",")
    return None if defaulted or job.time_limit is None else format_duration(job.time_limit)
