"""Where a job may run: partitions with their nodes, as the scheduler describes them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from forewarn.job.record import Job, Node, Partition
from forewarn.job.units import UNLIMITED, expand_nodes

_GPUS = re.compile(r"gpu(?::([A-Za-z][^:,()=]*))?(?:[:=](\d+))?(?:\([^)]*\))?$")


@dataclass(frozen=True, slots=True)
class PartitionNodes:
    """One partition, and the nodes it has; of some clusters only one of the two is known."""

    name: str
    partition: Partition | None
    nodes: tuple[Node, ...]

    @property
    def node_count(self) -> int | None:
        """How many nodes it has."""
        if self.partition and self.partition.nodes_total is not None:
            return self.partition.nodes_total
        return len(self.nodes) or None


def named_partitions(job: Job) -> tuple[str, ...]:
    """The partitions that a job asks for: none, one, or several of which any will do.

    >>> named_partitions(Job(cluster="c", job_id="1", submit=0, partition="a,b"))
    ('a', 'b')
    """
    return tuple(name for name in map(str.strip, (job.partition or "").split(",")) if name)


def places(job: Job, nodes: Sequence[Node], partitions: Sequence[Partition]) -> tuple[PartitionNodes, ...]:
    """The places that a job may run in; those that it names and that there are not are left out.

    A job that names none goes to the default partition. Where no partition is known to be that one, or none
    is known at all, the whole cluster is the place.
    """
    own = [node for node in nodes if node.cluster == job.cluster]
    known = {p.name: p for p in partitions if p.cluster == job.cluster}
    names = named_partitions(job) or tuple(name for name, p in known.items() if p.is_default)
    if not known or not names:
        return (PartitionNodes("", None, tuple(own)),)
    return tuple(PartitionNodes(name, known[name], _of(known[name], own)) for name in names if name in known)


def _of(partition: Partition, nodes: Sequence[Node]) -> tuple[Node, ...]:
    try:
        listed = set(expand_nodes(partition.nodes)) if partition.nodes else set()
    except ValueError:
        listed = set()
    return tuple(
        node for node in nodes if node.name in listed or partition.name in (node.partitions or "").split(",")
    )


def limit(value: int | None) -> int | None:
    """A limit, or None where there is none."""
    return None if value is None or value >= UNLIMITED else value


def gpu_types(gres: str | None) -> dict[str | None, int]:
    """A node's GPUs by type; None is the type of those that have no name.

    >>> gpu_types("gpu:a100:4(S:0-1),gpu:v100:2"), gpu_types("gpu:2"), gpu_types("craynetwork:4")
    ({'a100': 4, 'v100': 2}, {None: 2}, {})
    """
    found: dict[str | None, int] = {}
    for part in re.split(r",(?![^(]*\))", gres or ""):
        match = _GPUS.fullmatch(part.strip().removeprefix("gres/").removeprefix("gres:"))
        if match:
            kind, count = match.groups()
            found[kind] = found.get(kind, 0) + int(count or 1)
    return found


def features_of(node: Node) -> frozenset[str]:
    """What a node calls itself."""
    return frozenset(filter(None, map(str.strip, (node.features or "").split(","))))
