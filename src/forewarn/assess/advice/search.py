"""The search: which changes make a difference, on this cluster, and what each costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from forewarn.assess.advice.moves import WORTH, Move, addressed, moves, targets
from forewarn.assess.advice.situation import Situation, can_run_in
from forewarn.assess.assessment import Advice, Change, Failure
from forewarn.assess.codes import CauseCode, StepCode
from forewarn.assess.oddness.partitions import places
from forewarn.assess.risk_parts import of_cause
from forewarn.evidence import Statement
from forewarn.job.outcomes import Outcome

MORE = 0.01  # of risk that another change must take away to stand beside those that do without it
PART = 0.25  # of the risk that changes take away, what must be of the causes that they are meant for


def advise(situation: Situation) -> tuple[Advice, ...]:
    """What to change, the best first.

    Each change alone, and all together; another partition only where the job's own cannot even halve the
    risk. The risk afterwards is what is stated of the changed job, so a check of it states the same.
    """
    s, before = situation, situation.failure.probability
    here = list(moves(s, s.place))
    plans = [[move] for move in here] + ([here] if len(here) > 1 else [])
    found = list(_that_help(s, plans))
    best = min((after for after, _ in found), default=before)
    if addressed(s.failure) >= WORTH and best > before / 2:
        found += [
            (after, plan) for after, plan in _that_help(s, list(_elsewhere(s))) if after <= best - WORTH
        ]
    shown: list[tuple[float, list[Move]]] = []
    for after, plan in sorted(found, key=lambda one: (len(one[1]), one[0])):
        less = (other for other, fewer in shown if {m.change for m in fewer} < {m.change for m in plan})
        if all(after <= other - MORE for other in less):
            shown.append((after, plan))
    return tuple(
        _advice(s, plan, after)
        for after, plan in sorted(shown, key=lambda one: (round(one[0], 3), len(one[1])))
    )


def _that_help(s: Situation, plans: Sequence[list[Move]]) -> Iterator[tuple[float, list[Move]]]:
    """Those that clearly lower the risk, with what they lower it to."""
    stated = s.after([[move.change for move in plan] for plan in plans]) if plans else ()
    for plan, after in zip(plans, stated, strict=True):
        if after is not None and _helps(s.failure, after, targets(plan)):
            yield after.probability, plan


def _helps(before: Failure, after: Failure, causes: Sequence[Outcome]) -> bool:
    """Whether the risk falls clearly, and for the causes that the changes are meant for.

    A job that asks otherwise is a new request, which leaves a bad history behind whatever it asks for: a
    longer time limit would seem to cure a job that runs out of memory.
    """
    gain, meant = before.probability - after.probability, of_cause(before, *causes) - of_cause(after, *causes)
    return gain >= WORTH and meant >= WORTH and meant >= PART * gain


def _elsewhere(s: Situation) -> Iterator[list[Move]]:
    """The same in each other partition that can take the job."""
    allowed = s.may_use()
    for partition in s.partitions:
        job = replace(s.job, partition=partition.name)
        if partition.name == s.place.name or partition.name not in allowed:
            continue
        (place,) = places(job, s.nodes, s.partitions)
        if not can_run_in(job, place):
            continue
        change = Change(option="partition", before=s.job.partition, after=partition.name)
        step = Statement(StepCode.OTHER_PARTITION, {"partition": partition.name})
        there = Move(change, step, Statement(CauseCode.PARTITION_SUITS))
        if more := list(moves(s, place)):
            yield [there, *more]


def _advice(s: Situation, some: Sequence[Move], after: float) -> Advice:
    new_limit = max((move.limit or 0 for move in some), default=0)
    nodes = max((move.nodes or 0 for move in some), default=0) or s.job.nodes_asked or 1
    where = next((move.change.after for move in some if move.change.option == "partition"), s.place.name)
    return Advice(
        steps=tuple(move.step for move in some),
        because=tuple(dict.fromkeys(move.because for move in some)),
        changes=tuple(move.change for move in some),
        risk_before=s.failure.probability,
        risk_after=after,
        node_hours_before=_node_hours(s, s.job.nodes_asked or 1, s.limit),
        node_hours_after=_node_hours(s, nodes, new_limit or s.limit),
        wait_before=(s.waits or {}).get(s.place.name),
        wait_after=(s.waits or {}).get(where),
    )


def _node_hours(s: Situation, nodes: int, most: int | None) -> float | None:
    """Of a run that goes on to its usual end or its limit."""
    usual = s.needs.limit_for(0.5)
    if usual is None:
        return None
    return nodes * min(usual, most or usual) / 3600
