"""What Slurm itself says of a node: state, reason, boot times, as they were seen over time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from forewarn.assess.node_health.job_runs import DAY, EVIDENCE_DAYS
from forewarn.assess.node_health.records import Health, NodeEvidence
from forewarn.job.columns import to_records
from forewarn.job.record import Node

OUT = frozenset({"DOWN", "DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "ERROR", "NOT_RESPONDING"})
DRAINED = frozenset({"DRAIN", "DRAINED", "DRAINING"})
BROKEN = frozenset({"DOWN", "FAIL", "FAILING", "ERROR", "NOT_RESPONDING"})
# Switched off to save power, or booting: no fault.
ASLEEP = frozenset(
    {"POWERED_DOWN", "POWERING_DOWN", "POWERING_UP", "POWER_DOWN", "POWER_UP", "REBOOT_ISSUED"}
)
# Reasons that Slurm or a health check sets by itself when something is wrong, and those of planned work.
FAULT = re.compile(
    r"not responding|unexpectedly reboot|low \w*(memory|cpu|core|socket|disk|tmp)|gres/\S+ count"
    r"|kill task|batch job complete|health ?check|hardware|dimm|error|fail|bad|broken|\b(nhc|ecc|mce|xid)\b",
    re.IGNORECASE,
)
PLANNED = re.compile(
    r"maint|upgrade|update|reserv|patch|kernel|reboot asap|planned|firmware|move", re.IGNORECASE
)
_SAME_BOOT = 300  # seconds by which the boot time of one boot may be told differently
MANY_BOOTS = 3


@dataclass(frozen=True, slots=True)
class NodeHistory:
    """A node now, and what its past says."""

    node: Node
    since: int  # what ran before says nothing of it any more: its boot, or its return to service
    repaired: int  # when somebody brought it back from a drain; 0 for never
    boots: tuple[int, ...]  # of the last two weeks


def nodes_over_time(observations: pl.DataFrame, now: int) -> dict[str, NodeHistory]:
    """Each node's sightings up to now, put together."""
    found = {}
    known = observations.filter(pl.col("seen_at") <= now).sort("seen_at", maintain_order=True)
    for (name,), rows in known.group_by("name", maintain_order=True):
        sightings = list(zip(rows["seen_at"], to_records(rows, Node), strict=True))
        found[str(name)] = _seen(sightings, now)
    return found


def _seen(sightings: Sequence[tuple[int, Node]], now: int) -> NodeHistory:
    repaired = returned = 0
    before: frozenset[str] = frozenset()
    boots: list[int] = []
    for at, node in sightings:
        words = state_words(node.state)
        if words:
            if before & OUT and not words & OUT:
                returned = at
                repaired = at if before & DRAINED else repaired
            before = words
        if node.boot and (not boots or node.boot > boots[-1] + _SAME_BOOT):
            boots.append(node.boot)
    last = sightings[-1][1]
    # The first boot that was seen is how the node was found: only a later one is news.
    lately = tuple(boot for boot in boots[1:] if boot > now - EVIDENCE_DAYS * DAY)
    return NodeHistory(last, max(returned, last.boot or 0), repaired, lately)


def state_words(state: str | None) -> frozenset[str]:
    """Slurm's words of a node's state.

    >>> sorted(state_words("IDLE+DRAIN")), sorted(state_words("DOWN*"))
    (['DRAIN', 'IDLE'], ['DOWN'])
    """
    return frozenset(word.strip("*~#!%$@^-").upper() for word in (state or "").split("+") if word)


def in_service(node: Node) -> bool:
    """Whether Slurm would start a job there once there is room."""
    words = state_words(node.state)
    return not words & OUT or bool(words & ASLEEP and not words & (DRAINED | {"FAIL", "FAILING", "ERROR"}))


def signs(seen: NodeHistory) -> Iterator[NodeEvidence]:
    """What Slurm's own words and the boot times say against a node."""
    node, words = seen.node, state_words(seen.node.state)
    reason = (node.reason or "").strip()
    quoted = f", reason: {reason}" if reason else ", without a reason"
    if words & ASLEEP and not words & DRAINED:
        pass
    elif words & BROKEN:
        yield NodeEvidence(
            what=f"Slurm has it {_listed(words & BROKEN)}{quoted}", health=Health.SICK, source="slurm"
        )
    elif words & DRAINED:
        planned = PLANNED.search(reason) and not FAULT.search(reason)
        if not planned:
            health = Health.SICK if FAULT.search(reason) else Health.SUSPECT
            yield NodeEvidence(what=f"it is drained{quoted}", health=health, source="slurm")
    if len(seen.boots) >= MANY_BOOTS:
        yield NodeEvidence(
            what=f"it has booted {len(seen.boots)} times in the last {EVIDENCE_DAYS} days",
            health=Health.SUSPECT,
            source="boots",
            until=seen.boots[-MANY_BOOTS] + EVIDENCE_DAYS * DAY,
        )


def _listed(words: frozenset[str]) -> str:
    return " and ".join(sorted(word.lower().replace("_", " ") for word in words))


def starts(nodes: Mapping[str, NodeHistory]) -> tuple[dict[str, int], dict[str, int]]:
    """From when on runs speak of each node: of programs that failed, and of jobs that lost it."""
    return (
        {name: seen.since for name, seen in nodes.items() if seen.since},
        {name: seen.repaired for name, seen in nodes.items() if seen.repaired},
    )
