"""Node health cached in the store: classifying the nodes of a large cluster takes seconds."""

from __future__ import annotations

import json
from dataclasses import replace

from forewarn.assess.node_health.records import Health, NodeEvidence, NodeHealth
from forewarn.store.base import Store, StoreWriter

OLD = 6 * 3600  # seconds after which it is computed again


def cache_health(
    writer: StoreWriter, cluster: str, health: tuple[NodeHealth, ...], at: int, revision: int = -1
) -> None:
    """Store the node health at a moment, computed from jobs up to a revision of the store."""
    record = {"at": at, "revision": revision, "nodes": [node.to_json() for node in health]}
    writer.set_cursor(f"health {cluster}", json.dumps(record))


def cached_health(store: Store, cluster: str, at: int) -> tuple[NodeHealth, ...] | None:
    """Return the stored node health if it is recent or no job changed since; else None."""
    text = store.cursor(f"health {cluster}")
    if text is None:
        return None
    try:
        record = json.loads(text)
        is_recent = 0 <= at - record["at"] < OLD
        if not is_recent and (at < record["at"] or record["revision"] != store.revision(cluster=cluster)):
            return None
        return tuple(_read(node, at) for node in record["nodes"])
    except (ValueError, KeyError, TypeError):
        return None


def _read(value: dict[str, object], at: int) -> NodeHealth:
    """Read one node without evidence that has expired meanwhile."""
    evidence = tuple(
        NodeEvidence(**{**one, "health": Health(one["health"])})
        for one in value.pop("evidence")  # type: ignore[attr-defined]
        if one["until"] is None or one["until"] > at
    )
    node = NodeHealth(**{**value, "health": Health(str(value["health"]))})  # type: ignore[arg-type]
    worst = max((one.health for one in evidence), key=list(Health).index, default=Health.HEALTHY)
    return replace(node, evidence=evidence, health=worst)
