"""The input of advice for one job: the job, its forecast needs, and the cluster's nodes and partitions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from forewarn.assess.advice.needs import JobNeeds
from forewarn.assess.assessment import Change, Failure, NodeFitness
from forewarn.assess.node_health.slurm_states import in_service
from forewarn.assess.oddness.partitions import PartitionNodes, limit, places
from forewarn.assess.oddness.request import NodeRequest
from forewarn.job.memory import node_memory, units_per_node
from forewarn.job.record import Job, Node, Partition
from forewarn.job.units import UNLIMITED


@dataclass(frozen=True, slots=True)
class Situation:
    """The input of advice for one job."""

    job: Job  # with its defaults filled in
    needs: JobNeeds
    failure: Failure  # the stated risk
    # Returns the risk of the job under each of some lists of changes; None where every model abstains.
    after: Callable[[Sequence[Sequence[Change]]], Sequence[Failure | None]]
    nodes: Sequence[Node]
    partitions: Sequence[Partition]
    fitness: NodeFitness | None = None
    memory_floor: int | None = None  # bytes per node that the script configures for itself
    waits: Mapping[str, float] | None = None  # seconds that jobs usually wait, by partition
    node_risk: float = 0.0  # of failing because of a sick node that it may get
    # Returns the partitions that the user may use (those of their earlier jobs), computed only if needed.
    may_use: Callable[[], Collection[str]] = frozenset

    @property
    def place(self) -> PartitionNodes:
        """The partition that the job requests; of several, the first."""
        requested = places(self.job, self.nodes, self.partitions)
        return requested[0] if requested else PartitionNodes("", None, tuple(self.nodes))

    @property
    def memory(self) -> float | None:
        """Requested bytes per node, if its tasks spread evenly; None: a whole node's memory, or not known."""
        return node_memory(self.job) or None

    @property
    def limit(self) -> int | None:
        """The time limit in seconds; None: unlimited."""
        return limit(self.job.time_limit)


def counted(job: Job) -> float:
    """Return how many units of the memory request (CPUs, GPUs, or the node itself) share a node.

    >>> counted(Job(cluster="c", job_id="1", submit=0, memory_per="cpu", cpus_asked=16, nodes_asked=2))
    8.0
    """
    return units_per_node(job, job.memory_per)


def most_memory(job: Job, place: PartitionNodes) -> int | None:
    """Return the bytes per node that enough nodes in service offer, among those that fit the job otherwise.

    None where no node, or no memory of one, is known.
    """
    request = NodeRequest.of(replace(job, memory_asked=None))
    able = sorted(
        (node.memory for node in place.nodes if node.memory and in_service(node) and request.fits(node)),
        reverse=True,
    )
    needed = job.nodes_asked or 1
    if not place.nodes or all(node.memory is None for node in place.nodes):
        return None
    most = able[needed - 1] if len(able) >= needed else 0
    partition = place.partition
    largest = partition.memory_max if partition else None
    if partition and largest and largest < UNLIMITED << 20:
        most = min(most, int(largest * units_per_node(job, partition.memory_max_per)))
    return most


def can_run_in(job: Job, place: PartitionNodes) -> bool:
    """Check whether a partition can run the job as requested; GPU nodes count only for jobs with GPUs."""
    partition = place.partition
    if partition is None or partition.state not in (None, "UP"):
        return False
    nodes = job.nodes_asked or 1
    longest, most = limit(partition.time_max), limit(partition.nodes_max)
    if (longest is not None and (limit(job.time_limit) or 0) > longest) or (
        most is not None and nodes > most
    ):
        return False
    request = NodeRequest.of(job)
    able = [n for n in place.nodes if in_service(n) and request.fits(n) and (job.gpus_asked or not n.gpus)]
    return len(able) >= nodes
