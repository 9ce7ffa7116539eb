"""The memory that a job requests; `memory_columns.py` computes the same for a frame of jobs.

Slurm counts a request per node, CPU or GPU (`memory_per`; per node where that is missing). The kernel of the
features computes the same in its own arrays (`features/kernel/numbers.py`), and a test keeps the three equal.
`--mem=0` requests all memory of a node: callers that cannot use a 0 leave it out.
"""

from __future__ import annotations

from forewarn.job.record import Job


def units(per: str | None, *, nodes: int | None, cpus: int | None, gpus: int | None) -> int:
    """Count the units that memory is requested per: CPUs, GPUs, else nodes. A missing number counts as one.

    >>> [units(per, nodes=2, cpus=64, gpus=8) for per in ("cpu", "gpu", "node", None)]
    [64, 8, 2, 2]
    """
    if per == "cpu":
        return 1 if cpus is None else cpus
    return max(gpus or 1, 1) if per == "gpu" else max(nodes or 1, 1)


def units_per_node(job: Job, per: str | None) -> float:
    """Count the units of a memory request on one node, at least one, if the job spreads evenly."""
    counted = units(per, nodes=job.nodes_asked, cpus=job.cpus_asked, gpus=job.gpus_asked)
    return max(1.0, counted / max(job.nodes_asked or 1, 1))


def total_memory(job: Job) -> int | None:
    """Compute the bytes that the whole job requests."""
    if job.memory_asked is None:
        return None
    counted = units(job.memory_per, nodes=job.nodes_asked, cpus=job.cpus_asked, gpus=job.gpus_asked)
    return job.memory_asked * counted


def node_memory(job: Job) -> float | None:
    """Compute the bytes that the job requests on each node, if it spreads evenly.

    >>> node_memory(Job(cluster="c", job_id="1", submit=0, memory_asked=4, memory_per="gpu", gpus_asked=8))
    32.0
    """
    total = total_memory(job)
    return None if total is None else total / max(job.nodes_asked or 1, 1)


def task_memory(job: Job) -> float | None:
    """Compute the bytes that the job requests for each task, to compare with the largest task's use.

    Where the number of tasks is missing (sacct's text): per CPU if the request is, else per node.
    """
    total = total_memory(job)
    if total is not None and job.tasks_asked and job.tasks_asked >= 1:
        return total / job.tasks_asked
    if job.memory_per == "cpu":
        return job.memory_asked
    return node_memory(job)
