"""Describe jobs by their request, their outcome and their use: the columns of `JobTable.about`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from forewarn.features.inputs import treated
from forewarn.features.keys import normalised, normalised_column
from forewarn.features.labels import ran_to_limit
from forewarn.job.columns import JOB_SCHEMA
from forewarn.job.memory import total_memory
from forewarn.job.memory_columns import total_memory_column
from forewarn.job.outcomes import FailureKind, Outcome, failure_kind
from forewarn.job.record import Job
from forewarn.learn.data.matrix import or_zero
from forewarn.store.base import ClusterFacts

# Columns of the papers' protocol: known only when a job has ended, so never served.
POSTHOC_COLUMNS = (
    *("posthoc_run_time", "posthoc_cpu_time", "posthoc_cpu_rate", "posthoc_cpu_share"),
    *("posthoc_limit_share", "posthoc_limit_left"),
    *("posthoc_wait", "posthoc_max_memory", "posthoc_cpus_given"),
)
_ACTIVITIES = ("new", "infrequent", "frequent")
NEW, FREQUENT = 10, 100  # a user with fewer ended jobs is new; with at least so many, frequent
# The columns of the job store that are read: the request as it was at submit, and the outcome as it is now.
REQUEST_COLUMNS = (
    *("cluster", "job_id", "submit", "user", "partition", "qos", "time_limit", "memory_asked", "memory_per"),
    *("cpus_asked", "nodes_asked", "gpus_asked", "cpus_given", "nodes_given", "application", "name"),
    *("script_language", "script_launcher", "script_modules"),
)
OUTCOME_COLUMNS = (
    *("cluster", "job_id", "submit", "start", "end", "suspended", "outcome", "exit_code", "exit_signal"),
    *("cpu_time", "max_memory", "cpus_given", "nodes_given", "time_limit", "io_read", "io_written"),
)


def describe_live_jobs(jobs: Sequence[Job], user_ended: NDArray[np.float32]) -> pl.DataFrame:
    """Describe jobs that have not ended by their request and wait; `user_ended` is that feature's column.

    The values equal those of `describe`, which takes far longer for one job; a test compares the two.
    """
    columns = zip(*map(_live_values, jobs), strict=True)
    lists: dict[str, Sequence[Any]] = dict(zip((*_REQUEST_FIELDS, *_LIVE_NAMES), columns, strict=True))
    lists["nodes"] = [max(job.nodes_asked or 1, 1) for job in jobs]
    lists["memory"] = [total_memory(job) for job in jobs]
    lists["label"] = [_label(job) for job in jobs]
    lists["wait"] = [None if job.start is None else max(job.start - job.submit, 0) for job in jobs]
    described = [pl.Series(name, values, _LIVE_SCHEMA[name]) for name, values in lists.items()]
    return pl.DataFrame([*described, activity(user_ended)])


def _label(job: Job) -> str | None:
    """Return the job's program, or its name without run numbers."""
    if job.application is not None or job.name is None:
        return job.application
    return normalised(job.name)


_REQUEST_FIELDS = (
    *("job_id", "submit", "user", "partition", "qos", "time_limit"),
    *("script_language", "script_launcher", "script_modules"),
)
_LIVE_NAMES = {"cpus": "cpus_asked", "gpus": "gpus_asked", "start": "start"}
_live_values = attrgetter(*_REQUEST_FIELDS, *_LIVE_NAMES.values())
# Types and not their instances, which Polars takes far longer to recognise.
_LIVE_SCHEMA: Mapping[str, type[pl.DataType]] = {
    **{name: type(JOB_SCHEMA[name]) for name in _REQUEST_FIELDS},
    **dict.fromkeys((*_LIVE_NAMES, "nodes", "memory", "wait"), pl.Int64),
    "label": pl.String,
}


def describe_stored_jobs(jobs: pl.DataFrame, facts: ClusterFacts) -> pl.DataFrame:
    """Describe stored jobs by their current records, without the column `activity`."""
    return describe(treated(jobs, facts), jobs)


def describe(requests: pl.DataFrame, outcomes: pl.DataFrame) -> pl.DataFrame:
    """Build the columns of `JobTable.about`, without `activity`.

    `requests` holds the jobs as submitted, `outcomes` the same jobs in the same order as they are now.
    """
    run_time = pl.col("end") - pl.col("start") - pl.col("suspended").fill_null(0)
    nodes = pl.col("nodes_asked").fill_null(1).clip(1)
    then = outcomes.with_columns(_failure_kinds(outcomes), run_time=run_time.clip(0))
    cpus = pl.col("cpus_asked")  # the allocated CPUs are not known at submit
    return requests.select(
        *_REQUEST_FIELDS,
        cpus=cpus,
        nodes=nodes,
        gpus=pl.col("gpus_asked"),
        memory=total_memory_column(),
        label=pl.coalesce("application", normalised_column(pl.col("name"))),
        start=then["start"],
        end=then["end"],
        run_time=then["run_time"],
        outcome=then["outcome"],
        kind=then["kind"],
        cpu_time=then["cpu_time"],
        max_memory=then["max_memory"],
        io_bytes=then["io_read"] + then["io_written"],
        cpus_used=then["cpus_given"],
        wait=(then["start"] - pl.col("submit")).clip(0),
        # A log without nodes (SWF) counts processors, which on its machines were nodes.
        node_hours=then["run_time"].fill_null(0) * _node_count(then) / 3600,
        # A job that never started used nothing; without a number of CPUs the hours are missing.
        cpu_hours=_cpu_hours(then),
        asked_cpu_hours=pl.col("time_limit") * cpus / 3600,
    )


def _cpu_hours(then: pl.DataFrame) -> pl.Expr:
    never_ran = then["start"].is_null() & then["end"].is_not_null()
    used = then["run_time"] * pl.coalesce(then["cpus_given"], "cpus_asked") / 3600
    return pl.when(never_ran).then(0.0).otherwise(used)


def _node_count(then: pl.DataFrame) -> pl.Series:
    return then.select(pl.coalesce("nodes_given", "cpus_given").fill_null(1).clip(1)).to_series()


def _failure_kinds(frame: pl.DataFrame) -> pl.Series:
    """Return the kind of failure of each row; the few distinct combinations are computed once each."""
    cases = frame.select("outcome", "exit_code", "exit_signal", at_limit=ran_to_limit())
    distinct = cases.unique()
    kinds = [
        failure_kind(None if outcome is None else Outcome(outcome), code, signal, ran_to_limit=at_limit)
        for outcome, code, signal, at_limit in distinct.iter_rows()
    ]
    return cases.join(
        distinct.with_columns(kind=pl.Series([k and str(FailureKind(k)) for k in kinds], dtype=pl.String)),
        on=cases.columns,
        how="left",
        nulls_equal=True,
        maintain_order="left",
    )["kind"]


def activity(user_ended: NDArray[np.float32]) -> pl.Series:
    """Return how active each job's user was, by the number of the user's ended jobs."""
    level = np.searchsorted([NEW, FREQUENT], or_zero(user_ended), side="right")
    return pl.Series("activity", [_ACTIVITIES[place] for place in level.tolist()], pl.String)


def posthoc_values(about: pl.DataFrame) -> NDArray[np.float32]:
    """Compute the columns `POSTHOC_COLUMNS`."""
    run_time, cpus = pl.col("run_time"), pl.coalesce("cpus_used", "cpus")
    values = about.select(
        run_time.alias("run_time"),
        pl.col("cpu_time"),
        (pl.col("cpu_time") / run_time).alias("cpu_rate"),
        (pl.col("cpu_time") / (run_time * cpus)).alias("cpu_share"),
        (run_time / pl.col("time_limit")).alias("limit_share"),
        (pl.col("time_limit") - run_time).alias("limit_left"),
        pl.col("wait"),
        pl.col("max_memory"),
        cpus.alias("cpus_given"),
    )
    return values.cast(pl.Float32).fill_null(np.nan).to_numpy()
