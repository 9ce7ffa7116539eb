"""What advice on one job is made of: the job, its needs, and what the cluster has."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from forewarn.assess.advice.needs import JobNeeds
from forewarn.assess.assessment import Change, Failure, NodeFitness
from forewarn.assess.node_health import in_service
from forewarn.assess.oddness.partitions import PartitionNodes, limit, places
from forewarn.assess.oddness.request import NodeRequest
from forewarn.job.memory import node_memory, units_a_node
from forewarn.job.record import Job, Node, Partition
from forewarn.job.units import UNLIMITED


@dataclass(frozen=True, slots=True)
class Situation:
    """All that advice on one job is made of."""

    job: Job  # with its defaults filled in
    needs: JobNeeds
    failure: Failure  # as it is stated
    # What is stated of the job with each of some lists of changes; None where nobody can say.
    after: Callable[[Sequence[Sequence[Change]]], Sequence[Failure | None]]
    nodes: Sequence[Node]
    partitions: Sequence[Partition]
    fitness: NodeFitness | None = None
    memory_floor: int | None = None  # bytes on a node that the script sizes itself to
    waits: Mapping[str, float] | None = None  # seconds that jobs usually wait, by partition
    node_risk: float = 0.0  # of failing because of a sick node that it may be given
    # Partitions that are open to the user, asked for only where they matter: those of their earlier jobs.
    may_use: Callable[[], Collection[str]] = frozenset

    @property
    def place(self) -> PartitionNodes:
        """Where it is meant to run; of several partitions, the first."""
        found = places(self.job, self.nodes, self.partitions)
        return found[0] if found else PartitionNodes("", None, tuple(self.nodes))

    @property
    def memory(self) -> float | None:
        """Bytes asked for on each node, if its tasks spread evenly; None: all of a node, or not known."""
        return node_memory(self.job) or None

    @property
    def limit(self) -> int | None:
        """The time limit, where there is one."""
        return limit(self.job.time_limit)


def counted(job: Job) -> float:
    """How many of what memory is asked by share a node: CPUs, GPUs, or the node itself.

    >>> counted(Job(cluster="c", job_id="1", submit=0, memory_per="cpu", cpus_asked=16, nodes_asked=2))
    8.0
    """
    return units_a_node(job, job.memory_per)


def most_memory(job: Job, place: PartitionNodes) -> int | None:
    """Bytes a node that as many nodes as the job needs can give: those in service that else fit it.

    None where no node is known, or nothing of their memory.
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
        most = min(most, int(largest * units_a_node(job, partition.memory_max_per)))
    return most


def can_run_in(job: Job, place: PartitionNodes) -> bool:
    """Whether a place can take the job as it asks; nodes with GPUs are for those who use them."""
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
