"""What a request amounts to on the simulated machine, and what is refused, as slurmctld would."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forewarn.errors import RefusedError
from forewarn.job.sbatch.values import gpu_count, gres_count
from forewarn.job.units import UNLIMITED, expand_nodes
from forewarn.sources.simulator.kernel.layout import ALL_OF_NODE, BY_CPU, BY_NODE, DEFAULTED
from forewarn.sources.simulator.scenario import NodeGroup, Scenario
from forewarn.sources.simulator.world import node_names
from forewarn.sources.slurm.job_requests import JobSubmission

MIB = 1 << 20
# Slurm's own codes.
INVALID_PARTITION, DENIED, UNAVAILABLE, UNKNOWN_JOB, INVALID_ACCOUNT = 2000, 2002, 2014, 2017, 2045


def refused(words: str, code: int | None = None) -> RefusedError:
    """Return the error of something that the simulated cluster does not accept."""
    return RefusedError(f"the simulator: {words}", code)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmittedRequest:
    """A request in the kernel's numbers: memory in MiB, the partition by its place."""

    partition: int
    nodes: int
    tasks: int
    cpus_node: int
    gpus_node: int
    memory_mode: int
    memory_asked: int
    memory_given: int  # on each node
    limit: int
    time_defaulted: bool


class Admission:
    """The rules of one scenario."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._groups = {group.prefix: group for group in scenario.nodes}
        self._node_names = node_names(scenario)

    def partition(self, name: str | None) -> int:
        """Return the place of a partition; without a name, that of the first, which is the default."""
        if name is None:
            return 0
        for place, spec in enumerate(self._scenario.partitions):
            if spec.name == name:
                return place
        raise refused(f"invalid partition name specified: {name!r}", INVALID_PARTITION)

    def group(self, partition: int) -> NodeGroup:
        """Return the nodes of a partition."""
        return self._groups[self._scenario.partitions[partition].nodes]

    def admit(self, job: JobSubmission) -> AdmittedRequest:
        """Compute what a submission requests; refuse what can never run."""
        if job.reservation is not None:
            raise refused(f"requested reservation is invalid: {job.reservation!r}")
        partition = self.partition(job.partition)
        spec, group = self._scenario.partitions[partition], self.group(partition)
        cpus_per_task = job.cpus_per_task or 1
        nodes = job.nodes or 0
        tasks = job.tasks or max(nodes, 1) * (job.tasks_per_node or 1)
        nodes = nodes or max(1, -(-tasks * cpus_per_task // group.cpus))
        cpus_node = group.cpus if job.exclusive else max(1, -(-tasks * cpus_per_task // nodes))
        gpus_node = self._gpus(job, nodes, tasks)
        mode, asked = self._memory_request(job)
        limit = spec.time_default if job.time_limit is None else -(-job.time_limit // 60) * 60
        self.check_limit(partition, limit)
        if nodes > min(spec.nodes_max, group.count) or cpus_node > group.cpus or gpus_node > group.gpus:
            raise refused(
                f"requested node configuration is not available: {nodes} × {cpus_node} CPUs and {gpus_node} "
                f"GPUs in {spec.name}, which allows {min(spec.nodes_max, group.count)} × {group.cpus} and "
                f"{group.gpus}",
                UNAVAILABLE,
            )
        return AdmittedRequest(
            partition=partition,
            nodes=nodes,
            tasks=tasks,
            cpus_node=cpus_node,
            gpus_node=gpus_node,
            memory_mode=mode,
            memory_asked=asked,
            memory_given=self.memory_given(partition, mode, asked, cpus_node),
            limit=limit,
            time_defaulted=job.time_limit is None,
        )

    def check_limit(self, partition: int, limit: int) -> None:
        """Refuse a time limit that the partition does not allow."""
        spec = self._scenario.partitions[partition]
        if limit <= 0 or limit >= UNLIMITED or limit > spec.time_max:
            raise refused(
                f"requested time limit is invalid: {spec.name} allows up to {spec.time_max // 60} minutes"
            )

    def memory_given(self, partition: int, mode: int, asked: int, cpus_node: int) -> int:
        """Return the MiB on each node that a request amounts to; refuse more than a node has."""
        spec, node = self._scenario.partitions[partition], self.group(partition).memory_gib * 1024
        if mode == ALL_OF_NODE:
            return node
        if mode == DEFAULTED:
            return min(spec.memory_per_cpu_mib * cpus_node, node)
        wanted = asked * cpus_node if mode == BY_CPU else asked
        if wanted > node:
            raise refused(
                f"memory specification can not be satisfied: {wanted} MB on a node of {node} MB", UNAVAILABLE
            )
        return max(wanted, 1)

    def excluded(
        self, excluded: str | None, required: str | None, partition: int, nodes: int
    ) -> NDArray[np.bool_] | None:
        """Return which nodes a job may not use; None where it may use all."""
        if not excluded and not required:
            return None
        mask = np.zeros(len(self._node_names), np.bool_)
        for name in self._named(excluded):
            mask[self._node_names.index(name)] = True
        if wanted := self._named(required):
            mask |= ~np.isin(self._node_names, wanted)
        prefix = self.group(partition).prefix
        left = sum(
            name.startswith(prefix) and not out for name, out in zip(self._node_names, mask, strict=True)
        )
        if left < nodes:
            raise refused(
                f"requested node configuration is not available: {left} nodes are left of {nodes}",
                UNAVAILABLE,
            )
        return mask

    def _named(self, text: str | None) -> list[str]:
        try:
            names = expand_nodes(text) if text else []
        except ValueError as error:
            raise refused(f"invalid node name specified: {error}") from None
        if unknown := sorted(set(names) - set(self._node_names)):
            raise refused(f"invalid node name specified: {unknown[0]!r}")
        return names

    @staticmethod
    def _gpus(job: JobSubmission, nodes: int, tasks: int) -> int:
        """Return the GPUs on each node."""
        try:
            if job.gpus_per_node:
                return gpu_count(job.gpus_per_node)
            if job.gres:
                return gres_count(job.gres, "gpu") or 0
            whole = gpu_count(job.gpus) if job.gpus else 0
            whole = whole or (gpu_count(job.gpus_per_task) * tasks if job.gpus_per_task else 0)
        except ValueError as error:
            raise refused(f"invalid generic resource (gres) specification: {error}") from None
        return -(-whole // nodes)

    @staticmethod
    def _memory_request(job: JobSubmission) -> tuple[int, int]:
        if job.memory_per_node is not None:
            return (BY_NODE, -(-job.memory_per_node // MIB)) if job.memory_per_node else (ALL_OF_NODE, 0)
        if job.memory_per_cpu is not None:
            return BY_CPU, -(-job.memory_per_cpu // MIB)
        return DEFAULTED, 0
