"""Which nodes are fit for a job: those that could take it, without the sick ones."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from forewarn.assess.assessment import NodeFitness
from forewarn.assess.node_health.records import Health, NodeHealth
from forewarn.assess.node_health.slurm_states import in_service
from forewarn.assess.oddness import NodeRequest, places
from forewarn.job.record import Job, Node, Partition
from forewarn.job.units import compress_nodes


def exclude_line(nodes: Sequence[str]) -> str | None:
    """The option that keeps a job off some nodes.

    >>> exclude_line(["n7", "n3", "n4"]), exclude_line([])
    ('--exclude=n[3-4,7]', None)
    """
    return f"--exclude={compress_nodes(nodes)}" if nodes else None


def fitness(
    job: Job,
    nodes: Sequence[Node],
    partitions: Sequence[Partition],
    health: Sequence[NodeHealth],
    exclude: Collection[str] = (),
) -> NodeFitness:
    """Where a job can run. A node that Slurm has out of service needs no line to keep off it.

    The line is there only where the job can be had without the nodes that it names. `exclude` are those that
    the job keeps off already.
    """
    request = NodeRequest.of(job)
    judged = {node.node: node.health for node in health if node.cluster == job.cluster}
    able = {
        node.name: node
        for place in places(job, nodes, partitions)
        for node in place.nodes
        if request.fits(node) and in_service(node) and node.name not in exclude
    }
    by = {
        level: tuple(sorted(name for name in able if judged.get(name, Health.HEALTHY) is level))
        for level in Health
    }
    fit, needed = len(able) - len(by[Health.SICK]), request.nodes or 1
    return NodeFitness(
        fit=fit,
        needed=needed,
        sick=by[Health.SICK],
        suspect=by[Health.SUSPECT],
        exclude=exclude_line(by[Health.SICK]) if fit >= needed else None,
    )


def sick_risk(nodes: NodeFitness, health: Sequence[NodeHealth]) -> float:
    """The probability of failing because of a sick node, if any of those that fit may be given.

    What a sick node adds is how much more often jobs failed there than what they were explains.
    """
    added = [
        max(0.0, node.failed - (node.expected or 0.0)) / node.jobs
        for node in health
        if node.node in nodes.sick and node.jobs
    ]
    if not added:
        return 0.0
    able = nodes.fit + len(nodes.sick)
    meets = 1.0 - (1.0 - len(nodes.sick) / able) ** max(1, nodes.needed)
    return meets * sum(added) / len(added)
