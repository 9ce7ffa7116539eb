"""The rules of odd configuration: small functions that state what does not fit a partition, or return None.

The values hold both numbers, the requested one and the one that it is compared with, so that a person can
check it. `impossible` marks what no node or partition can ever run: Slurm rejects it, or it stays pending for
ever.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from forewarn.assess.codes import OddityCode
from forewarn.assess.oddness.partitions import PartitionNodes, features_of, gpu_types, limit
from forewarn.assess.oddness.request import NodeRequest, features_named, has_features
from forewarn.evidence import Statement, Value


@dataclass(frozen=True, slots=True)
class OddnessRule:
    """A rule of odd configuration: its name, the job field it concerns, and the function that tests it."""

    name: str
    field: str
    holds: Callable[[NodeRequest, PartitionNodes], Statement | None]
    impossible: bool = True


def memory_beyond_nodes(request: NodeRequest, place: PartitionNodes) -> Statement | None:
    """Find more memory per node than any node has."""
    most = max((node.memory for node in place.nodes if node.memory), default=None)
    if request.memory_a_node is None or most is None or request.memory_a_node <= most:
        return None
    by_unit = request.memory_per in ("cpu", "gpu") and request.memory
    more: dict[str, Value] = {"per": request.memory_per, "asked_per": request.memory} if by_unit else {}
    return _odd(OddityCode.MEMORY_EXCEEDS_NODES, place, request.memory_a_node, most, **more)


def memory_beyond_limit(request: NodeRequest, place: PartitionNodes) -> Statement | None:
    """Find more memory per node than the partition allows."""
    allowed = place.partition and limit(place.partition.memory_max)
    if not allowed or not place.partition or place.partition.memory_max_per != "node":
        return None
    if request.memory_a_node is None or request.memory_a_node <= allowed:
        return None
    return _odd(OddityCode.MEMORY_EXCEEDS_LIMIT, place, request.memory_a_node, allowed)


def cpus_beyond_nodes(request: NodeRequest, place: PartitionNodes) -> Statement | None:
    """Find more CPUs per node, or per task, than any node has."""
    most = max((node.cpus for node in place.nodes if node.cpus), default=None)
    if request.cpus_a_node is None or most is None or request.cpus_a_node <= most:
        return None
    each = "task" if request.cpus_per_task == request.cpus_a_node and request.tasks != 1 else "node"
    return _odd(OddityCode.CPUS_EXCEED_NODES, place, request.cpus_a_node, most, per=each)


def cpus_beyond_partition(request: NodeRequest, place: PartitionNodes) -> Statement | None:
    """Find more CPUs than all nodes together have."""
    cpus = [node.cpus for node in place.nodes if node.cpus]
    total = place.partition.cpus_total if place.partition else None
    total = total or sum(cpus) or None
    if request.cpus is None or total is None or request.cpus <= total:
        return None
    return _odd(OddityCode.CPUS_EXCEED_PARTITION, place, request.cpus, total)


def no_gpus(request: NodeRequest, place: PartitionNodes) -> Statement | None:
    """Find a request for GPUs where no node has any."""
    if not request.gpus or not place.nodes or any(node.gpus for node in place.nodes):
        return None
    return _odd(OddityCode.NO_GPUS, place, request.gpus, 0)


def gpus_beyond_nodes(request: NodeRequest, place: PartitionNodes) -> Statement | None:
    """Find more GPUs than one node has, or all nodes together."""
    has = [node.gpus for node in place.nodes if node.gpus]
    if not request.gpus or not has:
        return None
    if request.gpus_a_node is not None and request.gpus_a_node > max(has):
        return _odd(OddityCode.GPUS_EXCEED_NODES, place, request.gpus_a_node, max(has))
    if request.gpus > sum(has):
        return _odd(OddityCode.GPUS_EXCEED_PARTITION, place, request.gpus, sum(has))
    return None


def no_such_gpu(request: NodeRequest, place: PartitionNodes) -> Statement | None:
    """Find a GPU type that no node has."""
    types = {gpu_type for node in place.nodes for gpu_type in gpu_types(node.gres)}
    if not request.gpu_types or not types or None in types or request.gpu_types & types:
        return None
    available = tuple(sorted(gpu_type for gpu_type in types if gpu_type))
    return _odd(OddityCode.NO_SUCH_GPU, place, tuple(sorted(request.gpu_types)), available)


def nodes_beyond_partition(request: NodeRequest, place: PartitionNodes) -> Statement | None:
    """Find more nodes than the partition has."""
    if request.nodes is None or place.node_count is None or request.nodes <= place.node_count:
        return None
    return _odd(OddityCode.NODES_EXCEED_PARTITION, place, request.nodes, place.node_count)


def nodes_beyond_limit(request: NodeRequest, place: PartitionNodes) -> Statement | None:
    """Find more nodes than the partition allows for one job."""
    most = place.partition and limit(place.partition.nodes_max)
    if not most or request.nodes is None or request.nodes <= most:
        return None
    return _odd(OddityCode.NODES_EXCEED_LIMIT, place, request.nodes, most)


def time_beyond_limit(request: NodeRequest, place: PartitionNodes) -> Statement | None:
    """Find a time limit above that of the partition."""
    most = place.partition and limit(place.partition.time_max)
    if not most or request.time_limit is None or request.time_limit <= most:
        return None
    return _odd(OddityCode.TIME_EXCEEDS_LIMIT, place, request.time_limit, most)


def tasks_cannot_fill(request: NodeRequest, place: PartitionNodes) -> Statement | None:  # noqa: ARG001 - true in any place
    """Find fewer tasks than nodes: some nodes would stay empty, and Slurm allocates fewer."""
    if request.nodes is None or request.tasks is None or request.tasks >= request.nodes:
        return None
    return Statement(OddityCode.TASKS_CANNOT_FILL_NODES, {"nodes": request.nodes, "tasks": request.tasks})


def no_such_feature(request: NodeRequest, place: PartitionNodes) -> Statement | None:
    """Find a constraint that no node satisfies."""
    names = features_named(request.constraint)
    if not names or not place.nodes or any(has_features(request.constraint, node) for node in place.nodes):
        return None
    available = sorted(set().union(*map(features_of, place.nodes)))
    missing = tuple(name for name in names if name not in available) or tuple(names)
    return _odd(OddityCode.NO_SUCH_FEATURE, place, missing, tuple(available))


def no_node_fits(request: NodeRequest, place: PartitionNodes) -> Statement | None:
    """Find a request of which each part is available, but not all of it on one node."""
    if not place.nodes or any(map(request.fits, place.nodes)):
        return None
    return Statement(OddityCode.NO_NODE_FITS, {"partition": place.name})


def too_few_fit(request: NodeRequest, place: PartitionNodes) -> Statement | None:
    """Find more nodes than there are that fit the request."""
    fit = sum(map(request.fits, place.nodes))
    if not fit or request.nodes is None or request.nodes <= fit:
        return None
    return _odd(OddityCode.TOO_FEW_NODES_FIT, place, request.nodes, fit)


def partition_is_down(request: NodeRequest, place: PartitionNodes) -> Statement | None:  # noqa: ARG001 - of any job
    """Find a partition that is down: nothing starts there until an administrator brings it up."""
    state = (place.partition.state or "").upper() if place.partition else ""
    if not {"DOWN", "INACTIVE", "DRAIN"} & set(state.split("+")):
        return None
    return Statement(OddityCode.PARTITION_IS_DOWN, {"partition": place.name, "state": state.lower()})


def _odd(
    code: OddityCode, place: PartitionNodes, requested: Value, available: Value, **more: Value
) -> Statement:
    """State what is requested and what is available; an empty partition name is the whole cluster."""
    return Statement(code, {"partition": place.name, "asked": requested, "there": available, **more})


RULES: tuple[OddnessRule, ...] = (
    OddnessRule("memory-beyond-nodes", "memory_asked", memory_beyond_nodes),
    OddnessRule("memory-beyond-limit", "memory_asked", memory_beyond_limit),
    OddnessRule("cpus-beyond-nodes", "cpus_asked", cpus_beyond_nodes),
    OddnessRule("cpus-beyond-partition", "cpus_asked", cpus_beyond_partition),
    OddnessRule("no-gpus", "gpus_asked", no_gpus),
    OddnessRule("gpus-beyond-nodes", "gpus_asked", gpus_beyond_nodes),
    OddnessRule("no-such-gpu", "tres_asked", no_such_gpu),
    OddnessRule("nodes-beyond-partition", "nodes_asked", nodes_beyond_partition),
    OddnessRule("nodes-beyond-limit", "nodes_asked", nodes_beyond_limit),
    OddnessRule("time-beyond-limit", "time_limit", time_beyond_limit),
    OddnessRule("no-such-feature", "constraint", no_such_feature),
    OddnessRule("partition-is-down", "partition", partition_is_down, impossible=False),
    OddnessRule("tasks-cannot-fill-nodes", "tasks_asked", tasks_cannot_fill, impossible=False),
)
# Rules on the request as a whole, applied only where no rule above finds a more precise problem.
LAST_RULES: tuple[OddnessRule, ...] = (
    OddnessRule("no-node-fits", "partition", no_node_fits),
    OddnessRule("too-few-nodes-fit", "nodes_asked", too_few_fit),
)
