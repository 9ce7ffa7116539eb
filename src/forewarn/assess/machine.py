"""The machine that jobs run on, as it was last seen: nodes, partitions, and how healthy the nodes are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from forewarn.assess.node_health import NodeHealth, kept_health, node_health
from forewarn.job.columns import to_records
from forewarn.job.record import Node, Partition
from forewarn.store.base import Store

JUDGED_AT_ONCE = 50_000  # jobs: of a larger history the collector judges, and `forewarn health`


@dataclass(frozen=True)
class Machine:
    """One cluster's machine as of a moment. Each part is read when it is first asked for."""

    store: Store
    cluster: str
    at: int

    def load(self) -> None:
        """Read all of it now: for a process in which many threads will ask."""
        for part in ("nodes", "partitions", "kept_health", "health"):
            getattr(self, part)

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes that were ever seen, as they were last."""
        frames = self.store.scan("node", cluster=self.cluster)
        return tuple(node for frame in frames for node in to_records(frame, Node))

    @cached_property
    def partitions(self) -> tuple[Partition, ...]:
        """All partitions."""
        frames = self.store.scan("partition", cluster=self.cluster)
        return tuple(partition for frame in frames for partition in to_records(frame, Partition))

    @cached_property
    def kept_health(self) -> tuple[NodeHealth, ...] | None:
        """The same as it was judged last; None where that is too long ago."""
        return kept_health(self.store, self.cluster, self.at)

    @cached_property
    def health(self) -> tuple[NodeHealth, ...]:
        """How healthy the nodes are, by Slurm's words and by the jobs that they ran.

        As it was judged last, where that is not long ago; judged now where there are few jobs to look at.
        """
        if self.kept_health is not None:
            return self.kept_health
        few = self.store.count(cluster=self.cluster) <= JUDGED_AT_ONCE
        return node_health(self.store, self.cluster, self.at) if few else ()
