"""Which nodes are sick or suspect, and why."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from forewarn.assess.node_health import NodeHealth, exclude_line, node_health
from forewarn.errors import UsageError
from forewarn.job.moments import Moment, unix_seconds
from forewarn.job.units import expand_nodes
from forewarn.operate.freshness import moment_to_judge
from forewarn.operate.workspace import Workspace

LAST = "last"  # the moment of the newest record


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthResult:
    """The nodes of a cluster, or some of them, as of one moment."""

    cluster: str
    timezone: str
    at: int
    nodes: tuple[NodeHealth, ...]

    @property
    def exit_code(self) -> int:
        """As monitoring counts: 0 all are healthy, 1 some are suspect, 2 some are sick."""
        return max(node.health.exit_code for node in self.nodes)

    @property
    def sick(self) -> tuple[str, ...]:
        """The names of the sick ones."""
        return tuple(node.node for node in self.nodes if node.health.exit_code == 2)

    @property
    def exclude(self) -> str | None:
        """The option of sbatch that keeps a job off the sick ones."""
        return exclude_line(self.sick)


def judge_nodes(
    workspace: Workspace,
    *nodes: str,
    cluster: str | None = None,
    partition: str | None = None,
    at: Moment | None = None,
) -> HealthResult:
    """Judge the nodes of a cluster; `nodes` may be lists as Slurm writes them, n[01-04].

    `at` is a moment, or ``last`` for that of the newest record; None is now.
    """
    store, name = workspace.reading(), workspace.cluster(cluster)
    zone = store.clusters()[name].timezone
    asked = LAST if at == LAST else None if at is None else unix_seconds(at, zone)
    moment = moment_to_judge(store, name, asked, int(time.time()))
    judged = _chosen(node_health(store, name, moment), nodes, partition)
    return HealthResult(cluster=name, timezone=zone, at=moment, nodes=judged)


def _chosen(
    judged: Iterable[NodeHealth], nodes: Iterable[str], partition: str | None
) -> tuple[NodeHealth, ...]:
    known = {node.node: node for node in judged}
    if not known:
        raise UsageError("nothing is known of any node: `forewarn collect` sees them, `ingest` their jobs")
    try:
        wanted = {name for text in nodes for name in expand_nodes(text)} or set(known)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if missing := sorted(wanted - set(known)):
        raise UsageError(f"no such node: {', '.join(missing)}")
    chosen = tuple(
        node
        for name, node in known.items()
        if name in wanted and (not partition or partition in (node.partitions or "").split(","))
    )
    if not chosen:
        raise UsageError(f"no node of partition {partition} is known")
    return chosen
