"""The search: which changes make a difference, on this cluster, and what each costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from forewarn.assess.advice.moves import WORTH, Move, moves
from forewarn.assess.advice.risk import Risk, risk_of
from forewarn.assess.advice.situation import Situation, can_run_in
from forewarn.assess.assessment import Advice, Change
from forewarn.assess.oddness.machine import places


def advise(situation: Situation) -> tuple[Advice, ...]:
    """What to change, the best first: all that makes a difference together, then each alone.

    Another partition is advised only where the job's own cannot even halve the risk.
    """
    s = situation
    before = risk_of(s.failure, s.needs, s.memory, s.limit, node_risk=s.node_risk)
    here = list(moves(s, before, s.place))
    found = [_advice(s, before, [move]) for move in here]
    if len(here) > 1:
        found.append(_advice(s, before, here))
    best = min((advice.risk_after for advice in found), default=_whole(before, s.node_risk))
    if max(before.memory, before.time) >= WORTH and best > _whole(before, s.node_risk) / 2:
        found += _elsewhere(s, before, best)
    return tuple(sorted(found, key=lambda advice: (round(advice.risk_after, 3), len(advice.changes))))


def _elsewhere(s: Situation, before: Risk, best: float) -> Iterator[Advice]:
    """The same in each other partition that can take the job, where that leaves clearly less risk."""
    allowed = s.may_use()
    for partition in s.partitions:
        job = replace(s.job, partition=partition.name)
        if partition.name == s.place.name or partition.name not in allowed:
            continue
        (place,) = places(job, s.nodes, s.partitions)
        if not can_run_in(job, place):
            continue
        change = Change(option="partition", before=s.job.partition, after=partition.name)
        there = Move(change, before, f"use partition {partition.name}", "it has what this job needs")
        made = _advice(s, before, [there, *moves(s, before, place)])
        if made.risk_after <= best - WORTH and len(made.changes) > 1:
            yield replace(made, wait_after=(s.waits or {}).get(partition.name))


def _advice(s: Situation, before: Risk, some: Sequence[Move]) -> Advice:
    after = Risk(
        memory=min(move.risk.memory for move in some),
        time=min(move.risk.time for move in some),
        other=before.other,
    )
    left = s.node_risk - max(move.spared for move in some)
    new_limit = max((move.limit or 0 for move in some), default=0)
    nodes = max((move.nodes or 0 for move in some), default=0) or s.job.nodes_asked or 1
    wait = (s.waits or {}).get(s.place.name)
    return Advice(
        what=" and ".join(move.what for move in some),
        why="; ".join(move.why for move in some),
        changes=tuple(move.change for move in some),
        risk_before=_whole(before, s.node_risk),
        risk_after=_whole(after, left),
        node_hours_before=_node_hours(s, s.job.nodes_asked or 1, s.limit),
        node_hours_after=_node_hours(s, nodes, new_limit or s.limit),
        wait_before=wait,
        wait_after=wait,
    )


def _whole(risk: Risk, node_risk: float) -> float:
    return 1 - (1 - risk.whole) * (1 - node_risk)


def _node_hours(s: Situation, nodes: int, most: int | None) -> float | None:
    """Of a run that goes on to its usual end or its limit."""
    usual = s.needs.limit_for(0.5)
    if usual is None:
        return None
    return nodes * min(usual, most or usual) / 3600
