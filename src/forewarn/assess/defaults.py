"""Fill in what a script leaves open as Slurm will: a job before its submit, as its record will be.

Histories are kept by what the scheduler recorded. A job that says nothing of its time limit is recorded with
its partition's, so it has to be compared as such. What is certain comes first: the partition's own defaults,
then the user's earlier jobs of which Slurm said that the field was left open. Where neither is known (files
of accounting have no partitions), an earlier job of the user that agrees in all that this script does say was
most likely the same script, and has what Slurm filled in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from forewarn.assess.user_history import UserHistory
from forewarn.features.inputs import policed, policed_job
from forewarn.features.keys import normalised, normalised_column
from forewarn.job.partition_defaults import with_partition_defaults
from forewarn.job.record import Job, Partition
from forewarn.store.base import ClusterFacts

DAYS = (7, 90)  # how far back a user's own earlier jobs are looked at, the second time if there are none
_WHOSE = ("group", "account", "qos")  # what Slurm takes from its own records of the user
_COUNTS = ("cpus_asked", "nodes_asked", "gpus_asked")  # never left open: Slurm's own default is one
_OPEN = ("partition", "time_limit", "memory_asked", "memory_per")
_PER_NODE = ClusterFacts(fields={"memory_asked": {"per": "node"}})  # the form in which all records have it


def with_defaults(job: Job, partitions: Sequence[Partition], past: UserHistory | None = None) -> Job:
    """Fill in partition, time limit, memory, account and quality of service where the script names none."""
    nodes = job.nodes_asked or 1
    tasks = job.tasks_asked or nodes
    job = replace(job, nodes_asked=nodes, tasks_asked=tasks, cpus_asked=job.cpus_asked or tasks)
    earlier = _earlier(past, job) if past is not None and job.user else pl.DataFrame()
    job = _of_the_site(job, [p for p in partitions if p.cluster == job.cluster], earlier)
    if earlier.is_empty():
        return job
    alike = next(frame for frame in _candidates(job, earlier) if frame.height)
    if _agree(job, alike).height:
        # Accounting has no time limit of a job that never started and named none.
        job = _filled(job, {field: _last(alike, field) for field in _OPEN}, _OPEN)
        if job.memory_asked == 0:  # `--mem=0`, which is recorded as what a node has
            job = replace(job, memory_asked=max(alike["memory_asked"].drop_nulls(), default=0))
    return _filled(job, {field: _left_open(alike, field) for field in _WHOSE}, _WHOSE)


def _of_the_site(job: Job, partitions: Sequence[Partition], earlier: pl.DataFrame) -> Job:
    """Fill in what partitions say; which is the default one, jobs say too that left it to the site."""
    flagged = _flagged(earlier, "partition")
    if flagged.height and not any(p.is_default for p in partitions):
        job = _filled(job, {"partition": flagged["partition"][-1]}, ("partition",))
    return with_partition_defaults(job, partitions)


def _earlier(past: UserHistory, job: Job) -> pl.DataFrame:
    """The user's own earlier jobs, oldest first, with memory counted for a node."""
    jobs = past.of(job.user).filter(pl.col("submit") <= job.submit).sort("submit")
    for days in DAYS:
        recent = jobs.filter(pl.col("submit") >= job.submit - days * 86400)
        if recent.height:
            return policed(recent, _PER_NODE)
    return pl.DataFrame()


def _candidates(job: Job, earlier: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Earlier jobs to take values from, the most alike first."""
    agreeing = _agree(job, earlier)
    if job.name is not None:
        yield agreeing.filter(normalised_column(pl.col("name")) == normalised(job.name))
    yield agreeing
    yield earlier.filter(pl.col("partition").eq_missing(pl.lit(job.partition)))
    yield earlier


def _agree(job: Job, earlier: pl.DataFrame) -> pl.DataFrame:
    """Those that asked for the same, in all that this job says."""
    asked = policed_job(job, _PER_NODE)
    stated = {field: getattr(asked, field) for field in (*_COUNTS, *_OPEN)}
    if job.memory_asked == 0:
        stated["memory_asked"] = None
    given = {field: value for field, value in stated.items() if value is not None or field == "gpus_asked"}
    same = [pl.col(field).eq_missing(pl.lit(value)) for field, value in given.items()]
    return earlier.filter(pl.all_horizontal(same))


def _flagged(jobs: pl.DataFrame, field: str) -> pl.DataFrame:
    """Those whose record says that the field was left to the site."""
    return jobs.filter(pl.col("defaulted").str.split(",").list.contains(field)) if jobs.height else jobs


def _left_open(jobs: pl.DataFrame, field: str) -> Any:
    """The field of the newest job, of one that left it open where there is one."""
    flagged = _flagged(jobs, field)
    return _last(flagged if flagged.height else jobs, field)


def _last(jobs: pl.DataFrame, field: str) -> Any:
    """The newest value that there is."""
    values = jobs[field].drop_nulls()
    return values[-1] if values.len() else None


def _filled(job: Job, values: dict[str, Any], fields: Sequence[str]) -> Job:
    """The job with these fields where it has none."""
    return replace(job, **{field: values[field] for field in fields if getattr(job, field) is None})
