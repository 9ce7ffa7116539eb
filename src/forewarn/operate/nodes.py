"""Judge which nodes are sick or suspect, and why."""

from __future__ import annotations

from collections.abc import Iterable

from forewarn.assess.node_health.classification import node_health
from forewarn.assess.node_health.records import NodeHealth
from forewarn.errors import UsageError
from forewarn.job.moments import Moment, unix_seconds
from forewarn.job.units import expand_nodes
from forewarn.operate.freshness import health_time
from forewarn.operate.health_result import HealthResult
from forewarn.operate.workspace import Workspace

LAST = "last"  # the time of the newest record


def judge_nodes(
    workspace: Workspace,
    *nodes: str,
    cluster: str | None = None,
    partition: str | None = None,
    at: Moment | None = None,
) -> HealthResult:
    """Judge the health of a cluster's nodes; `nodes` may be lists as Slurm writes them, n[01-04].

    `at` is a moment, or ``last`` for the time of the newest record; None: now.
    """
    store, name = workspace.reading(), workspace.cluster(cluster)
    zone = store.clusters()[name].timezone
    at = LAST if at == LAST else None if at is None else unix_seconds(at, zone)
    unix_time = health_time(store, name, at, workspace.now())
    selected = _select(node_health(store, name, unix_time), nodes, partition)
    return HealthResult(cluster=name, timezone=zone, at=unix_time, nodes=selected)


def _select(
    health: Iterable[NodeHealth], nodes: Iterable[str], partition: str | None
) -> tuple[NodeHealth, ...]:
    by_name = {node.node: node for node in health}
    if not by_name:
        raise UsageError("the store has no nodes; run `forewarn collect`, or ingest jobs that ran on them")
    try:
        names = {name for text in nodes for name in expand_nodes(text)} or set(by_name)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if missing := sorted(names - set(by_name)):
        raise UsageError(f"no such node: {', '.join(missing)}")
    selected = tuple(
        node
        for name, node in by_name.items()
        if name in names and (not partition or partition in (node.partitions or "").split(","))
    )
    if not selected:
        raise UsageError(f"the store has no nodes of partition {partition}")
    return selected
