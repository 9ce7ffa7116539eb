"""Resubmissions in a history: which job was the same request tried again, with what, and what became of it.

Two jobs are the same request if user, program (or name without run numbers), CPUs, nodes and GPUs are equal;
memory and time limit may differ, since they are what a retry changes. A job is a resubmission of the last one
of its request that had ended, known to be so, when it was submitted, at most `WINDOW` before.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import numpy as np
import polars as pl

from forewarn.assess.retry.causes import cause_column
from forewarn.features.keys import normalised_column
from forewarn.job.memory_columns import node_memory_column
from forewarn.job.outcomes import Outcome
from forewarn.store.base import KNOWN_AT

WINDOW = 7 * 86_400  # seconds between a failure and a resubmission of it
MORE = 1.02  # ratio of two amounts from which one is more than the other: Slurm rounds to megabytes, minutes
COLUMNS = (
    *("job_id", "submit", "user", "name", "application", "cpus_asked", "nodes_asked", "gpus_asked"),
    *("tasks_asked", "memory_asked", "memory_per", "time_limit", "start", "end", "suspended", "outcome"),
    *("exit_code", "exit_signal", "max_memory", "script_hash", "array_task_id", KNOWN_AT),
)
_BEFORE = (
    *("job_id", "start", "end", "suspended", "outcome", "cause", "memory", "time_limit", "exit_code"),
    *("exit_signal", "script_hash", "name", "array_task_id", "row"),
)


class RequestChange(StrEnum):
    """The change of the request between a failed job and its resubmission."""

    NONE = "none"
    MEMORY = "memory"
    TIME = "time"
    BOTH = "both"
    LESS = "less"  # of memory or of time


def resubmissions(jobs: pl.DataFrame) -> pl.DataFrame:
    """Return the jobs, in order of submit, each beside the one that it is a resubmission of.

    Columns with the prefix `before_` are null for a job that is not a resubmission. Beside those of the jobs
    there are: `request` (a hash), `cause`, `memory` (bytes requested on a node), `change`, `attempt` (how
    often the request was tried in a row, this job included), `alike` (nothing is known to differ in the
    script, the name or the task) and `weight`: all resubmissions of one job, for example as a bulk, count
    as one.
    """
    label = pl.coalesce("application", normalised_column(pl.col("name")))
    keyed = (
        jobs.filter(pl.col("user").is_not_null())
        .with_columns(cause=cause_column(), memory=node_memory_column(), label=label)
        .with_columns(request=pl.struct("user", "label", "cpus_asked", "nodes_asked", "gpus_asked").hash())
        .sort("submit", "job_id")
        .with_row_index("row")
    )
    ended = (
        keyed.filter(pl.col(KNOWN_AT).is_not_null() & pl.col("outcome").is_not_null())
        .select("request", before_known=KNOWN_AT, **{f"before_{name}": name for name in _BEFORE})
        .sort("before_known")
    )
    found = keyed.join_asof(
        ended,
        left_on="submit",
        right_on="before_known",
        by="request",
        strategy="backward",
        tolerance=WINDOW,
        check_sortedness=False,  # both are sorted just above; Polars cannot check it for groups
    )
    weight = 1 / pl.len().over("before_row")
    found = found.with_columns(_change(), _alike(), weight=weight)
    return found.with_columns(attempt=pl.Series(_attempts(found), dtype=pl.Int64))


def _change() -> pl.Expr:
    memory = pl.col("memory") / pl.col("before_memory")
    time = pl.col("time_limit") / pl.col("before_time_limit")
    more_memory, more_time = (memory >= MORE).fill_null(False), (time >= MORE).fill_null(False)
    less = ((memory <= 1 / MORE) | (time <= 1 / MORE)).fill_null(False)
    return (
        pl.when(pl.col("before_row").is_null())
        .then(None)
        .when(more_memory & more_time)
        .then(pl.lit(str(RequestChange.BOTH)))
        .when(more_memory)
        .then(pl.lit(str(RequestChange.MEMORY)))
        .when(more_time)
        .then(pl.lit(str(RequestChange.TIME)))
        .when(less)
        .then(pl.lit(str(RequestChange.LESS)))
        .otherwise(pl.lit(str(RequestChange.NONE)))
        .alias("change")
    )


def _alike() -> pl.Expr:
    same = [
        (pl.col(name) == pl.col(f"before_{name}")).fill_null(True)
        for name in ("script_hash", "name", "array_task_id")
    ]
    return pl.all_horizontal(same).alias("alike")


def _attempts(found: pl.DataFrame) -> list[int]:
    """Count the tries of each request in a row: a job that follows a failure is one try more than it."""
    before = found["before_row"].fill_null(-1).cast(pl.Int64).to_numpy()
    follows_failure = found["before_cause"].is_not_null().to_numpy()
    attempts = np.ones(found.height, np.int64)
    for row in np.flatnonzero(follows_failure):  # in order of submit: the earlier job comes first
        attempts[row] = attempts[before[row]] + 1
    return attempts.tolist()


def completed_column() -> pl.Expr:
    """Build the success of each resubmission; null where its outcome is not known or tells nothing."""
    unclear = [str(Outcome.UNKNOWN), str(Outcome.CANCELLED)]
    return (
        pl.when(pl.col("outcome").is_null() | (pl.col("outcome").is_in(unclear) & pl.col("cause").is_null()))
        .then(None)
        .otherwise(pl.col("outcome") == str(Outcome.COMPLETED))
    )


def empty_jobs(columns: Sequence[str] = COLUMNS) -> pl.DataFrame:
    """Return a history without jobs."""
    from forewarn.job.columns import JOB_SCHEMA

    return pl.DataFrame(schema={name: JOB_SCHEMA.get(name, pl.Int64()) for name in columns})
