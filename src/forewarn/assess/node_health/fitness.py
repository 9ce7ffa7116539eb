"""The nodes that fit a job: those that satisfy its request, without sick ones."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from forewarn.assess.assessment import NodeFitness
from forewarn.assess.node_health.records import Health, NodeHealth, exclude_line
from forewarn.assess.node_health.slurm_states import in_service
from forewarn.assess.oddness import NodeRequest, places
from forewarn.job.record import Job, Node, Partition


def fitness(
    job: Job,
    nodes: Sequence[Node],
    partitions: Sequence[Partition],
    health: Sequence[NodeHealth],
    exclude: Collection[str] = (),
) -> NodeFitness:
    """Count the nodes that a job can run on, and find the sick ones that it should exclude.

    A node that is out of service needs no `--exclude`. The option is set only where enough nodes remain
    without those that it names. `exclude` are the nodes that the job excludes already.
    """
    request = NodeRequest.of(job)
    health_of = {node.node: node.health for node in health if node.cluster == job.cluster}
    usable = {
        node.name: node
        for place in places(job, nodes, partitions)
        for node in place.nodes
        if request.fits(node) and in_service(node) and node.name not in exclude
    }
    by_health = {
        level: tuple(sorted(name for name in usable if health_of.get(name, Health.HEALTHY) is level))
        for level in Health
    }
    fit, needed = len(usable) - len(by_health[Health.SICK]), request.nodes or 1
    return NodeFitness(
        fit=fit,
        needed=needed,
        sick=by_health[Health.SICK],
        suspect=by_health[Health.SUSPECT],
        exclude=exclude_line(by_health[Health.SICK]) if fit >= needed else None,
    )


def sick_risk(nodes: NodeFitness, health: Sequence[NodeHealth]) -> float:
    """Return the probability of failing because of a sick node, if the job may get any node that fits.

    A sick node adds the excess of its failures over the expected ones.
    """
    added = [
        max(0.0, (node.failed or 0) - (node.expected or 0.0)) / node.jobs
        for node in health
        if node.node in nodes.sick and node.jobs
    ]
    if not added:
        return 0.0
    usable = nodes.fit + len(nodes.sick)
    gets_sick_node = 1.0 - (1.0 - len(nodes.sick) / usable) ** max(1, nodes.needed)
    return gets_sick_node * sum(added) / len(added)
