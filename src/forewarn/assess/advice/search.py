"""The search for changes that lower the risk, and what each of them costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from forewarn.assess.advice.moves import WORTH, Move, addressable_risk, moves, targets
from forewarn.assess.advice.situation import Situation, can_run_in
from forewarn.assess.assessment import Advice, Change, Failure
from forewarn.assess.codes import CauseCode, StepCode
from forewarn.assess.oddness.partitions import places
from forewarn.assess.risk_parts import cause_probability
from forewarn.evidence import Statement
from forewarn.job.outcomes import Outcome

MORE = 0.01  # least additional reduction of risk that justifies one more change
PART = 0.25  # share of the reduction that must come from the causes that the changes address


def advise(situation: Situation) -> tuple[Advice, ...]:
    """Find changes that lower the risk, best first.

    Each change is tried alone, and all together; another partition only where the job's own cannot halve the
    risk. The risk after a change is computed like that of any job, so a check of the changed job agrees.
    """
    s, before = situation, situation.failure.probability
    single = list(moves(s, s.place))
    plans = [[move] for move in single] + ([single] if len(single) > 1 else [])
    found = list(_that_help(s, plans))
    best = min((after for after, _ in found), default=before)
    if addressable_risk(s.failure) >= WORTH and best > before / 2:
        found += [
            (after, plan) for after, plan in _that_help(s, list(_elsewhere(s))) if after <= best - WORTH
        ]
    shown: list[tuple[float, list[Move]]] = []
    for after, plan in sorted(found, key=lambda one: (len(one[1]), one[0])):
        subsets = (other for other, fewer in shown if {m.change for m in fewer} < {m.change for m in plan})
        if all(after <= other - MORE for other in subsets):
            shown.append((after, plan))
    return tuple(
        _advice(s, plan, after)
        for after, plan in sorted(shown, key=lambda one: (round(one[0], 3), len(one[1])))
    )


def _that_help(s: Situation, plans: Sequence[list[Move]]) -> Iterator[tuple[float, list[Move]]]:
    """Yield the plans that clearly lower the risk, with the risk after them."""
    stated = s.after([[move.change for move in plan] for plan in plans]) if plans else ()
    for plan, after in zip(plans, stated, strict=True):
        if after is not None and _helps(s.failure, after, targets(plan)):
            yield after.probability, plan


def _helps(before: Failure, after: Failure, causes: Sequence[Outcome]) -> bool:
    """Check whether the risk falls clearly, and from the causes that the changes address.

    A changed job is a new request, which leaves a bad history behind whatever the change: a longer time limit
    would seem to help a job that runs out of memory.
    """
    gain = before.probability - after.probability
    by_causes = cause_probability(before, *causes) - cause_probability(after, *causes)
    return gain >= WORTH and by_causes >= WORTH and by_causes >= PART * gain


def _elsewhere(s: Situation) -> Iterator[list[Move]]:
    """Yield the plans that move the job to another partition that can run it."""
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
        move = Move(change, step, Statement(CauseCode.PARTITION_SUITS))
        if others := list(moves(s, place)):
            yield [move, *others]


def _advice(s: Situation, plan: Sequence[Move], after: float) -> Advice:
    new_limit = max((move.limit or 0 for move in plan), default=0)
    nodes = max((move.nodes or 0 for move in plan), default=0) or s.job.nodes_asked or 1
    where = next((move.change.after for move in plan if move.change.option == "partition"), s.place.name)
    return Advice(
        steps=tuple(move.step for move in plan),
        because=tuple(dict.fromkeys(move.because for move in plan)),
        changes=tuple(move.change for move in plan),
        risk_before=s.failure.probability,
        risk_after=after,
        node_hours_before=_node_hours(s, s.job.nodes_asked or 1, s.limit),
        node_hours_after=_node_hours(s, nodes, new_limit or s.limit),
        wait_before=(s.waits or {}).get(s.place.name),
        wait_after=(s.waits or {}).get(where),
    )


def _node_hours(s: Situation, nodes: int, most: int | None) -> float | None:
    """Return the node hours of a run with the median run time, capped at its limit."""
    usual = s.needs.limit_for(0.5)
    if usual is None:
        return None
    return nodes * min(usual, most or usual) / 3600
