"""Evidence from Slurm's own node records: states, reasons and boot times, as observed over time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from forewarn.assess.node_health import wording
from forewarn.assess.node_health.job_runs import DAY, EVIDENCE_DAYS
from forewarn.assess.node_health.records import Health, NodeEvidence
from forewarn.job.columns import to_records
from forewarn.job.record import Node

OUT = frozenset({"DOWN", "DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "ERROR", "NOT_RESPONDING"})
DRAINED = frozenset({"DRAIN", "DRAINED", "DRAINING"})
BROKEN = frozenset({"DOWN", "FAIL", "FAILING", "ERROR", "NOT_RESPONDING"})
# Powered down to save energy, or booting: no fault.
ASLEEP = frozenset(
    {"POWERED_DOWN", "POWERING_DOWN", "POWERING_UP", "POWER_DOWN", "POWER_UP", "REBOOT_ISSUED"}
)
# Reasons that Slurm or a health check sets at a fault, and those of planned work.
FAULT = re.compile(
    r"not responding|unexpectedly reboot|low \w*(memory|cpu|core|socket|disk|tmp)|gres/\S+ count"
    r"|kill task|batch job complete|health ?check|hardware|dimm|error|fail|bad|broken|\b(nhc|ecc|mce|xid)\b",
    re.IGNORECASE,
)
PLANNED = re.compile(
    r"maint|upgrade|update|reserv|patch|kernel|reboot asap|planned|firmware|move", re.IGNORECASE
)
_SAME_BOOT = 300  # seconds by which reports of the same boot may differ
MANY_BOOTS = 3


@dataclass(frozen=True, slots=True)
class NodeHistory:
    """A node, and its past as far as it matters for its health."""

    node: Node
    since: int  # its boot or return to service: earlier runs are no evidence any more
    repaired: int  # when it was resumed after a drain; 0: never
    boots: tuple[int, ...]  # of the last two weeks


def node_histories(observations: pl.DataFrame, at: int) -> dict[str, NodeHistory]:
    """Combine the observations of each node up to a moment."""
    histories = {}
    known = observations.filter(pl.col("seen_at") <= at).sort("seen_at", maintain_order=True)
    for (name,), rows in known.group_by("name", maintain_order=True):
        states = list(zip(rows["seen_at"], to_records(rows, Node), strict=True))
        histories[str(name)] = _history(states, at)
    return histories


def _history(states: Sequence[tuple[int, Node]], at: int) -> NodeHistory:
    repaired = returned = 0
    before: frozenset[str] = frozenset()
    boots: list[int] = []
    for seen_at, node in states:
        words = state_words(node.state)
        if words:
            if before & OUT and not words & OUT:
                returned = seen_at
                repaired = seen_at if before & DRAINED else repaired
            before = words
        if node.boot and (not boots or node.boot > boots[-1] + _SAME_BOOT):
            boots.append(node.boot)
    last = states[-1][1]
    # The first observed boot is older than the observations: only later ones count.
    recent = tuple(boot for boot in boots[1:] if boot > at - EVIDENCE_DAYS * DAY)
    return NodeHistory(last, max(returned, last.boot or 0), repaired, recent)


def state_words(state: str | None) -> frozenset[str]:
    """Split a node state into Slurm's base state and flags.

    >>> sorted(state_words("IDLE+DRAIN")), sorted(state_words("DOWN*"))
    (['DRAIN', 'IDLE'], ['DOWN'])
    """
    return frozenset(word.strip("*~#!%$@^-").upper() for word in (state or "").split("+") if word)


def in_service(node: Node) -> bool:
    """Check whether Slurm would start a job on the node once it is free."""
    words = state_words(node.state)
    return not words & OUT or bool(words & ASLEEP and not words & (DRAINED | {"FAIL", "FAILING", "ERROR"}))


def slurm_evidence(history: NodeHistory) -> Iterator[NodeEvidence]:
    """Yield the evidence against a node from its Slurm state and its boot times."""
    node, words = history.node, state_words(history.node.state)
    reason = (node.reason or "").strip()
    if words & ASLEEP and not words & DRAINED:
        pass
    elif words & BROKEN:
        what = wording.out_of_service(words & BROKEN, reason)
        yield NodeEvidence(what=what, health=Health.SICK, source="slurm")
    elif words & DRAINED:
        is_planned = PLANNED.search(reason) and not FAULT.search(reason)
        if not is_planned:
            health = Health.SICK if FAULT.search(reason) else Health.SUSPECT
            yield NodeEvidence(what=wording.drained(reason), health=health, source="slurm")
    if len(history.boots) >= MANY_BOOTS:
        yield NodeEvidence(
            what=wording.boots(len(history.boots), EVIDENCE_DAYS),
            health=Health.SUSPECT,
            source="boots",
            until=history.boots[-MANY_BOOTS] + EVIDENCE_DAYS * DAY,
        )


def starts(histories: Mapping[str, NodeHistory]) -> tuple[dict[str, int], dict[str, int]]:
    """Return from when on runs are evidence on each node: for failed programs, and for lost nodes."""
    return (
        {name: history.since for name, history in histories.items() if history.since},
        {name: history.repaired for name, history in histories.items() if history.repaired},
    )
