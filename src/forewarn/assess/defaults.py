"""Fill in the options that a script leaves open, as Slurm will when the job is submitted.

Histories are keyed by what the scheduler recorded. A job without a time limit is recorded with that of its
partition, so it has to be compared as such. What is certain comes first: the defaults of the partition, then
the user's earlier jobs whose record flags the field as left open. Where neither is known (accounting files
have no partitions), an earlier job of the user that agrees in every option of this script was most likely the
same script, and has the values that Slurm filled in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from forewarn.assess.user_history import UserHistory
from forewarn.features.inputs import treated, treated_job
from forewarn.features.keys import normalised, normalised_column
from forewarn.job.partition_defaults import with_partition_defaults
from forewarn.job.record import Job, Partition
from forewarn.store.base import ClusterFacts

DAYS = (7, 90)  # days of a user's earlier jobs to search; the second where the first has none
_FROM_USER = ("group", "account", "qos")  # what Slurm takes from its own records of the user
_COUNTS = ("cpus_asked", "nodes_asked", "gpus_asked")  # never left open: Slurm's own default is one
_OPEN = ("partition", "time_limit", "memory_asked", "memory_per")
_PER_NODE = ClusterFacts(fields={"memory_asked": {"per": "node"}})  # the form that all records share


def with_defaults(job: Job, partitions: Sequence[Partition], history: UserHistory | None = None) -> Job:
    """Fill in partition, time limit, memory, account and quality of service where the script names none."""
    nodes = job.nodes_asked or 1
    tasks = job.tasks_asked or nodes
    job = replace(job, nodes_asked=nodes, tasks_asked=tasks, cpus_asked=job.cpus_asked or tasks)
    earlier = _earlier(history, job) if history is not None and job.user else pl.DataFrame()
    job = _with_site_defaults(job, [p for p in partitions if p.cluster == job.cluster], earlier)
    if earlier.is_empty():
        return job
    matching = next(frame for frame in _candidates(job, earlier) if frame.height)
    if _agree(job, matching).height:
        # Accounting has no time limit for a job that never started and requested none.
        job = _filled(job, {field: _last(matching, field) for field in _OPEN}, _OPEN)
        if job.memory_asked == 0:  # `--mem=0`, which is recorded as what a node has
            job = replace(job, memory_asked=max(matching["memory_asked"].drop_nulls(), default=0))
    return _filled(job, {field: _left_open(matching, field) for field in _FROM_USER}, _FROM_USER)


def _with_site_defaults(job: Job, partitions: Sequence[Partition], earlier: pl.DataFrame) -> Job:
    """Fill in the partition's defaults; jobs that left it open also show which partition is the default."""
    flagged = _flagged(earlier, "partition")
    if flagged.height and not any(p.is_default for p in partitions):
        job = _filled(job, {"partition": flagged["partition"][-1]}, ("partition",))
    return with_partition_defaults(job, partitions)


def _earlier(history: UserHistory, job: Job) -> pl.DataFrame:
    """Return the user's own earlier jobs, oldest first, with memory per node."""
    jobs = history.of(job.user).filter(pl.col("submit") <= job.submit).sort("submit")
    for days in DAYS:
        recent = jobs.filter(pl.col("submit") >= job.submit - days * 86400)
        if recent.height:
            return treated(recent, _PER_NODE)
    return pl.DataFrame()


def _candidates(job: Job, earlier: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Yield sets of earlier jobs to take values from, most similar first."""
    agreeing = _agree(job, earlier)
    if job.name is not None:
        yield agreeing.filter(normalised_column(pl.col("name")) == normalised(job.name))
    yield agreeing
    yield earlier.filter(pl.col("partition").eq_missing(pl.lit(job.partition)))
    yield earlier


def _agree(job: Job, earlier: pl.DataFrame) -> pl.DataFrame:
    """Select the jobs with the same request in every option that this job sets."""
    request = treated_job(job, _PER_NODE)
    stated = {field: getattr(request, field) for field in (*_COUNTS, *_OPEN)}
    if job.memory_asked == 0:
        stated["memory_asked"] = None
    options = {field: value for field, value in stated.items() if value is not None or field == "gpus_asked"}
    same = [pl.col(field).eq_missing(pl.lit(value)) for field, value in options.items()]
    return earlier.filter(pl.all_horizontal(same))


def _flagged(jobs: pl.DataFrame, field: str) -> pl.DataFrame:
    """Select the jobs whose record flags the field as left to the site."""
    return jobs.filter(pl.col("defaulted").str.split(",").list.contains(field)) if jobs.height else jobs


def _left_open(jobs: pl.DataFrame, field: str) -> Any:
    """Return the field of the newest job, of one that left it open where there is one."""
    flagged = _flagged(jobs, field)
    return _last(flagged if flagged.height else jobs, field)


def _last(jobs: pl.DataFrame, field: str) -> Any:
    """Return the newest value that is present."""
    values = jobs[field].drop_nulls()
    return values[-1] if values.len() else None


def _filled(job: Job, values: dict[str, Any], fields: Sequence[str]) -> Job:
    """Return the job with these fields set where they are missing."""
    return replace(job, **{field: values[field] for field in fields if getattr(job, field) is None})
