"""The tasks of a job array that is pending as one record."""

from __future__ import annotations

import polars as pl

from forewarn.job.array_tasks import task_numbers


def split_arrays(frame: pl.DataFrame) -> pl.DataFrame:
    """Replace each pending array (``7_[0-9]``) by its tasks: ``7_0``, ``7_1``, …

    Slurm makes them jobs one by one, when they start, and renames the remaining array. Each task has had the
    array's submit time and request from the beginning, and its end will be recorded under the task's id. A
    task that already has a row of its own is not added again: for a moment after a start sacct shows both.
    """
    is_pending = pl.col("array_tasks").is_not_null() & pl.col("array_job_id").is_not_null()
    if not frame.select(is_pending.any()).item():
        return frame
    numbers = pl.col("array_tasks").map_elements(task_numbers, return_dtype=pl.List(pl.Int64))
    tasks = (
        frame.filter(is_pending)
        .with_columns(array_task_id=numbers)
        .explode("array_task_id")
        .drop_nulls("array_task_id")
        .with_columns(
            job_id=pl.format("{}_{}", "array_job_id", "array_task_id"),
            raw_id=pl.lit(None, pl.Int64),  # that of the array; a task gets its own when it starts
            array_tasks=pl.lit(None, pl.String),
        )
    )
    key = ["cluster", "job_id", "submit"]
    own = frame.filter(~is_pending)
    return pl.concat([own, tasks.select(frame.columns).join(own.select(key), on=key, how="anti")])
