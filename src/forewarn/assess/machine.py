"""Nodes, partitions and node health of a cluster, as last observed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from forewarn.assess.node_health.classification import node_health
from forewarn.assess.node_health.health_cache import cached_health
from forewarn.assess.node_health.records import NodeHealth
from forewarn.job.columns import to_records
from forewarn.job.record import Node, Partition
from forewarn.store.base import Store

CLASSIFIED_AT_ONCE = 50_000  # jobs; a larger history is left to the collector and `forewarn health`


@dataclass(frozen=True)
class Machine:
    """One cluster's nodes, partitions and node health at a moment, each read at its first use."""

    store: Store
    cluster: str
    at: int

    def load(self) -> None:
        """Read everything now: for a process in which many threads will use it."""
        for part in ("nodes", "partitions", "cached_health", "health"):
            getattr(self, part)

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """Every node ever observed, in its latest state."""
        frames = self.store.scan("node", cluster=self.cluster)
        return tuple(node for frame in frames for node in to_records(frame, Node))

    @cached_property
    def partitions(self) -> tuple[Partition, ...]:
        """Every partition, in its latest state."""
        frames = self.store.scan("partition", cluster=self.cluster)
        return tuple(partition for frame in frames for partition in to_records(frame, Partition))

    @cached_property
    def cached_health(self) -> tuple[NodeHealth, ...] | None:
        """Node health as it was last stored; None where that is too old."""
        return cached_health(self.store, self.cluster, self.at)

    @cached_property
    def health(self) -> tuple[NodeHealth, ...]:
        """Node health, by Slurm's node states and by the jobs that ran there.

        The stored health where it is recent; else it is computed, if there are few enough jobs.
        """
        if self.cached_health is not None:
            return self.cached_health
        few = self.store.count(cluster=self.cluster) <= CLASSIFIED_AT_ONCE
        return node_health(self.store, self.cluster, self.at) if few else ()

    @property
    def health_at_hand(self) -> tuple[NodeHealth, ...] | None:
        """Node health if it costs nothing: computed before, or as last stored."""
        computed: tuple[NodeHealth, ...] | None = self.__dict__.get("health")
        return self.cached_health if computed is None else computed
