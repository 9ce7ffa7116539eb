"""What a script leaves open, filled in as Slurm will: a job before its submit, as its record will be.

Histories are kept by what the scheduler recorded. A job that says nothing of its time limit is recorded with
its partition's, so it has to be compared as such.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from forewarn.job.record import Job, Partition
from forewarn.store.base import Store

DAYS = (7, 90)  # how far back a user's own earlier jobs are looked at, the second time if there are none
_WHOSE = ("group", "account", "qos")  # what Slurm takes from its own records of the user


def with_defaults(job: Job, partitions: Sequence[Partition], store: Store | None = None) -> Job:
    """The job with its partition's defaults, and with what the user's last job had of account and quality.

    Which fields were left open stands in `defaulted`, as in records of the scheduler that tell it.
    """
    there = [p for p in partitions if p.cluster == job.cluster]
    named = job.partition or next((p.name for p in there if p.is_default), None)
    partition = next((p for p in there if named and p.name == named.split(",")[0]), None)
    filled: dict[str, Any] = {"partition": named}
    if job.time_limit is None and partition:
        filled["time_limit"] = partition.time_default or partition.time_max
    if job.memory_asked is None and partition and partition.memory_default is not None:
        filled["memory_asked"] = partition.memory_default
        filled["memory_per"] = partition.memory_default_per
    filled["nodes_asked"] = job.nodes_asked or 1
    filled["tasks_asked"] = job.tasks_asked or filled["nodes_asked"]
    filled["cpus_asked"] = job.cpus_asked or filled["tasks_asked"]
    if store is not None and job.user:
        filled |= _last_of(store, replace(job, partition=named))
    new = {k: v for k, v in filled.items() if getattr(job, k) is None and v is not None}
    return replace(job, **new)


def _last_of(store: Store, job: Job) -> Mapping[str, Any]:
    """Account and quality of the user's last job, in this partition if there was one."""
    for days in DAYS:
        frames = list(
            store.scan(
                cluster=job.cluster,
                since=job.submit - days * 86400,
                until=job.submit + 1,
                columns=[*_WHOSE, "submit", "user", "partition"],
                where=pl.col("user") == job.user,
            )
        )
        jobs = pl.concat(frames) if frames else pl.DataFrame()
        if jobs.height:
            here = jobs.filter(pl.col("partition") == job.partition)
            return (here if here.height else jobs).select(_WHOSE).tail(1).to_dicts()[0]
    return {}
