"""The defaults that a partition gives to a job that leaves something open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from forewarn.job.record import Job, Partition


def with_partition_defaults(job: Job, partitions: Sequence[Partition]) -> Job:
    """Fill in partition, time limit and memory where the job leaves them open and a partition sets them.

    Where a job names several partitions, the first known one decides, as in Slurm.

    >>> long = Partition(cluster="c", name="long", is_default=True, time_max=600, memory_default=9)
    >>> job = with_partition_defaults(Job(cluster="c", job_id="1", submit=0), [long])
    >>> job.partition, job.time_limit, job.memory_asked
    ('long', 600, 9)
    """
    by_name = {p.name: p for p in partitions if p.cluster == job.cluster}
    default = next((p.name for p in by_name.values() if p.is_default), None)
    names = default if job.partition is None else job.partition
    partition = next((by_name[name] for name in (names or "").split(",") if name in by_name), None)
    if partition is None:
        return job
    limit = (partition.time_default or partition.time_max) if job.time_limit is None else job.time_limit
    job = replace(job, partition=names, time_limit=limit)
    if job.memory_asked is None and partition.memory_default is not None:
        job = replace(job, memory_asked=partition.memory_default, memory_per=partition.memory_default_per)
    return job
