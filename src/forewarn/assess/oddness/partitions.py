"""Partitions with their nodes: the places in which a job may run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from forewarn.job.record import Job, Node, Partition
from forewarn.job.units import UNLIMITED, expand_nodes

_GPUS = re.compile(r"gpu(?::([A-Za-z][^:,()=]*))?(?:[:=](\d+))?(?:\([^)]*\))?$")


@dataclass(frozen=True, slots=True)
class PartitionNodes:
    """A partition and its nodes; on some clusters only one of the two is known."""

    name: str
    partition: Partition | None
    nodes: tuple[Node, ...]

    @property
    def node_count(self) -> int | None:
        """The number of nodes in the partition."""
        if self.partition and self.partition.nodes_total is not None:
            return self.partition.nodes_total
        return len(self.nodes) or None


def named_partitions(job: Job) -> tuple[str, ...]:
    """Return the partitions that a job requests: none, one, or several of which any will do.

    >>> named_partitions(Job(cluster="c", job_id="1", submit=0, partition="a,b"))
    ('a', 'b')
    """
    return tuple(name for name in map(str.strip, (job.partition or "").split(",")) if name)


def places(job: Job, nodes: Sequence[Node], partitions: Sequence[Partition]) -> tuple[PartitionNodes, ...]:
    """Return the partitions that a job may run in, without requested ones that do not exist.

    A job that names none goes to the default partition. Where the default, or every partition, is unknown,
    the whole cluster is one place with an empty name.
    """
    own = [node for node in nodes if node.cluster == job.cluster]
    by_name = {p.name: p for p in partitions if p.cluster == job.cluster}
    names = named_partitions(job) or tuple(name for name, p in by_name.items() if p.is_default)
    if not by_name or not names:
        return (PartitionNodes("", None, tuple(own)),)
    return tuple(
        PartitionNodes(name, by_name[name], _of(by_name[name], own)) for name in names if name in by_name
    )


def _of(partition: Partition, nodes: Sequence[Node]) -> tuple[Node, ...]:
    try:
        listed = set(expand_nodes(partition.nodes)) if partition.nodes else set()
    except ValueError:
        listed = set()
    return tuple(
        node for node in nodes if node.name in listed or partition.name in (node.partitions or "").split(",")
    )


def limit(value: int | None) -> int | None:
    """Return a limit, or None where it is unlimited."""
    return None if value is None or value >= UNLIMITED else value


def gpu_types(gres: str | None) -> dict[str | None, int]:
    """Count a node's GPUs by type; None is the type of unnamed ones.

    >>> gpu_types("gpu:a100:4(S:0-1),gpu:v100:2"), gpu_types("gpu:2"), gpu_types("craynetwork:4")
    ({'a100': 4, 'v100': 2}, {None: 2}, {})
    """
    found: dict[str | None, int] = {}
    for part in re.split(r",(?![^(]*\))", gres or ""):
        match = _GPUS.fullmatch(part.strip().removeprefix("gres/").removeprefix("gres:"))
        if match:
            gpu_type, count = match.groups()
            found[gpu_type] = found.get(gpu_type, 0) + int(count or 1)
    return found


def features_of(node: Node) -> frozenset[str]:
    """Return the features of a node, as `--constraint` names them."""
    return frozenset(filter(None, map(str.strip, (node.features or "").split(","))))
