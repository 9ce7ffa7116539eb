"""The tasks of a job array that waits as one record."""

from __future__ import annotations

import re

import polars as pl

MOST_TASKS = 10_000  # of one array: the others are known when they start
_PART = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?")


def task_numbers(tasks: str, most: int = MOST_TASKS) -> list[int]:
    """The tasks that a text of Slurm's names; of a text that Slurm cut short, those that it still says.

    >>> task_numbers("0-2,7,10-20:5%2")
    [0, 1, 2, 7, 10, 15, 20]
    >>> task_numbers("1-3,...")
    [1, 2, 3]
    """
    found: list[int] = []
    for part in tasks.partition("%")[0].split(","):
        match = _PART.fullmatch(part.strip())
        if match is not None and len(found) < most:
            first, last, step = match[1], match[2] or match[1], match[3] or "1"
            found += range(int(first), int(last) + 1, max(1, int(step)))
    return found[:most]


def split_arrays(frame: pl.DataFrame) -> pl.DataFrame:
    """Jobs in which an array that waits (``7_[0-9]``) is its tasks: ``7_0``, ``7_1``, …

    Slurm makes jobs of them one by one, when they start, and renames what is left. Each task has had the
    array's submit and request from the beginning, and it is as a task that its end will be told. A task that
    has a row of its own is not made again of the array's: for a moment after a start sacct shows both.
    """
    waits = pl.col("array_tasks").is_not_null() & pl.col("array_job_id").is_not_null()
    if not frame.select(waits.any()).item():
        return frame
    numbers = pl.col("array_tasks").map_elements(task_numbers, return_dtype=pl.List(pl.Int64))
    tasks = (
        frame.filter(waits)
        .with_columns(array_task_id=numbers)
        .explode("array_task_id")
        .drop_nulls("array_task_id")
        .with_columns(
            job_id=pl.format("{}_{}", "array_job_id", "array_task_id"),
            raw_id=pl.lit(None, pl.Int64),  # the array's own: a task gets one when it starts
            array_tasks=pl.lit(None, pl.String),
        )
    )
    key = ["cluster", "job_id", "submit"]
    own = frame.filter(~waits)
    return pl.concat([own, tasks.select(frame.columns).join(own.select(key), on=key, how="anti")])
