"""What a partition gives to a job that asks for nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from forewarn.job.record import Job, Partition


def with_partition_defaults(job: Job, partitions: Sequence[Partition]) -> Job:
    """Fill in partition, time limit and memory where the job leaves them open, as far as partitions tell.

    Of several partitions that a job names, the first that is known decides, as in Slurm.

    >>> long = Partition(cluster="c", name="long", is_default=True, time_max=600, memory_default=9)
    >>> job = with_partition_defaults(Job(cluster="c", job_id="1", submit=0), [long])
    >>> job.partition, job.time_limit, job.memory_asked
    ('long', 600, 9)
    """
    known = {p.name: p for p in partitions if p.cluster == job.cluster}
    default = next((p.name for p in known.values() if p.is_default), None)
    named = default if job.partition is None else job.partition
    where = next((known[name] for name in (named or "").split(",") if name in known), None)
    if where is None:
        return job
    limit = (where.time_default or where.time_max) if job.time_limit is None else job.time_limit
    job = replace(job, partition=named, time_limit=limit)
    if job.memory_asked is None and where.memory_default is not None:
        job = replace(job, memory_asked=where.memory_default, memory_per=where.memory_default_per)
    return job
