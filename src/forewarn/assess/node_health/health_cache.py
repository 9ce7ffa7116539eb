"""Health that was judged a while ago, kept in the store: judging a large cluster takes seconds."""

from __future__ import annotations

import json
from dataclasses import replace

from forewarn.assess.node_health.records import Health, NodeEvidence, NodeHealth
from forewarn.store.base import Store, StoreWriter

OLD = 6 * 3600  # seconds after which it is judged again


def keep_health(
    writer: StoreWriter, cluster: str, health: tuple[NodeHealth, ...], at: int, revision: int = -1
) -> None:
    """Keep what was judged at a moment, from jobs up to a revision of the store."""
    told = {"at": at, "revision": revision, "nodes": [node.to_json() for node in health]}
    writer.set_cursor(f"health {cluster}", json.dumps(told))


def kept_health(store: Store, cluster: str, at: int) -> tuple[NodeHealth, ...] | None:
    """What was judged not long before a moment, or from all that is known; None where nothing was."""
    text = store.cursor(f"health {cluster}")
    if text is None:
        return None
    try:
        told = json.loads(text)
        recent = 0 <= at - told["at"] < OLD
        if not recent and (at < told["at"] or told["revision"] != store.revision(cluster=cluster)):
            return None
        return tuple(_read(node, at) for node in told["nodes"])
    except (ValueError, KeyError, TypeError):
        return None


def _read(value: dict[str, object], at: int) -> NodeHealth:
    """One node, healthy again where its evidence has expired meanwhile."""
    evidence = tuple(
        NodeEvidence(**{**one, "health": Health(one["health"])})
        for one in value.pop("evidence")  # type: ignore[attr-defined]
        if one["until"] is None or one["until"] > at
    )
    node = NodeHealth(**{**value, "health": Health(str(value["health"]))})  # type: ignore[arg-type]
    worst = max((one.health for one in evidence), key=list(Health).index, default=Health.HEALTHY)
    return replace(node, evidence=evidence, health=worst)
