"""Selection of one job, or one user's jobs, from an answer that may hold a whole array, or all users'."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import polars as pl

from forewarn.errors import UsageError
from forewarn.job.units import JobId, parse_job_id
from forewarn.sources.base import Batch


def require_job_id(text: str) -> JobId:
    """Read a job id that a person wrote; `UsageError` where it is none."""
    try:
        return parse_job_id(text)
    except ValueError as error:
        raise UsageError(
            f"{error}; write an id like 123, 123_4 (array task) or 123+1 (het component)"
        ) from None


def only_job(batches: Iterable[Batch], target: JobId) -> list[Batch]:
    """Select the rows of a job; for an array or het job all; for a task still pending with others, theirs."""
    found = list(batches)
    exact = pl.col("job_id") == target.job
    if target.task is None and target.offset is None and target.tasks is None:
        number = pl.lit(target.number)
        exact |= pl.any_horizontal(pl.col("raw_id", "array_job_id", "het_job_id").eq_missing(number))
    selected = [Batch(batch.kind, batch.frame.filter(exact), batch.bad) for batch in found]
    if target.task is None or any(batch.frame.height for batch in selected):
        return selected
    pending = (pl.col("array_job_id") == target.number) & pl.col("array_tasks").is_not_null()
    return [Batch(batch.kind, batch.frame.filter(pending), batch.bad) for batch in found]


def only_users(batches: Iterable[Batch], user: str | None) -> Iterator[Batch]:
    """Select the rows of one user's jobs; without a user, all."""
    for batch in batches:
        yield (
            batch
            if user is None
            else Batch(batch.kind, batch.frame.filter(pl.col("user") == user), batch.bad)
        )
