"""What a job requests per node and in total, for comparison with the nodes of a partition."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import ceil

from forewarn.assess.oddness.partitions import features_of, gpu_types
from forewarn.job.memory import units
from forewarn.job.record import Job, Node
from forewarn.job.units import UNLIMITED, parse_tres

_FEATURE = re.compile(r"[A-Za-z_][\w.:-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRequest:
    """A request, broken down per node. None is what the job leaves open.

    Where the job does not set the number of nodes, Slurm may spread its tasks: then only the needs of one
    task must fit on a node.
    """

    nodes: int | None
    tasks: int | None
    cpus: int | None  # in total
    cpus_per_task: int | None
    cpus_a_node: int | None  # at least, on one of its nodes
    memory_a_node: int | None  # bytes, at least
    memory: int | None  # as requested, per `memory_per`
    memory_per: str | None
    gpus: int | None
    gpus_a_node: int | None
    gpu_types: frozenset[str]
    time_limit: int | None
    constraint: str | None

    @classmethod
    def of(cls, job: Job) -> NodeRequest:
        """Derive the request per node from a job record."""
        left_open = set((job.defaulted or "").split(","))
        nodes = None if "nodes_asked" in left_open else job.nodes_asked or None
        tasks = job.tasks_asked or None  # left to Slurm it is one, or one per node
        cpus = job.cpus_asked or None
        per_task = None
        if cpus and tasks and cpus % tasks == 0:
            per_task = cpus // tasks
        spread = nodes is None or (nodes == 1 and tasks is not None and tasks > 1 and not _one_node(job))
        cpus_a_node = per_task if spread else None
        if not spread and cpus and nodes:
            cpus_a_node = ceil(cpus / nodes)
        gpus = job.gpus_asked or None
        gpus_a_node = ceil(gpus / nodes) if gpus and nodes and not spread else None
        return cls(
            nodes=nodes,
            tasks=tasks,
            cpus=cpus,
            cpus_per_task=per_task,
            cpus_a_node=cpus_a_node,
            memory_a_node=_memory(job, cpus_a_node, gpus_a_node),
            memory=job.memory_asked or None,
            memory_per=job.memory_per,
            gpus=gpus,
            gpus_a_node=gpus_a_node,
            gpu_types=_gpu_types(job),
            time_limit=job.time_limit,
            constraint=job.constraint,
        )

    def fits(self, node: Node) -> bool:
        """Check whether an empty node can hold the job's part; unknown properties do not exclude it."""
        needs = ((self.cpus_a_node, node.cpus), (self.memory_a_node, node.memory))
        if any(ask is not None and has is not None and ask > has for ask, has in needs):
            return False
        # A node record without GPUs means that the node has none.
        if self.gpus and (node.gpus or 0) < (self.gpus_a_node or 1):
            return False
        types = gpu_types(node.gres)
        if self.gpu_types and None not in types and not self.gpu_types & set(types):
            return False
        return has_features(self.constraint, node)


def has_features(constraint: str | None, node: Node) -> bool:
    """Check whether a node satisfies a constraint: one name, or names joined by & or by |.

    For longer forms (`[a*2&b*4]`, parentheses) it is enough that the node has one of the names.

    >>> node = Node(cluster="c", name="n", features="intel,ib")
    >>> [has_features(text, node) for text in ("intel&ib", "amd|ib", "amd&ib", None)]
    [True, True, False, True]
    """
    names = features_named(constraint)
    if not names:
        return True
    has = features_of(node)
    if re.search(r"[\[\]()*|]", constraint or ""):
        return any(name in has for name in names)
    return all(name in has for name in names)


def features_named(constraint: str | None) -> tuple[str, ...]:
    """Return the feature names in a constraint."""
    text = constraint or ""
    return () if text.strip().lower() in {"", "(null)"} else tuple(_FEATURE.findall(text))


def _one_node(job: Job) -> bool:
    """Check whether exactly one node was requested. Slurm records 1 also for many tasks that left it open.

    A job without a scheduler state has not been submitted, so its record is what its script requests.
    """
    line = job.submit_line or ""
    return job.state is None or bool(re.search(r"(?:^|\s)(?:-N\s*=?\s*1\b|--nodes(?:=|\s+)1\b)", line))


def _memory(job: Job, cpus_a_node: int | None, gpus_a_node: int | None) -> int | None:
    if not job.memory_asked or job.memory_asked >= UNLIMITED << 20:  # 0 means the whole memory of the node
        return None
    return job.memory_asked * units(job.memory_per, nodes=1, cpus=cpus_a_node, gpus=gpus_a_node)


def _gpu_types(job: Job) -> frozenset[str]:
    try:
        tres = parse_tres(job.tres_asked or "")
    except ValueError:
        return frozenset()
    return frozenset(name.partition(":")[2] for name in tres if name.startswith("gres/gpu:"))
