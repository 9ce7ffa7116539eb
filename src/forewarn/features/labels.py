"""Labels of a column of jobs under a failure policy."""

from __future__ import annotations

import polars as pl

from forewarn.job.outcomes import FailurePolicy, Outcome


def ran_to_limit() -> pl.Expr:
    """Build the condition that the job ran until its time limit: a timeout in logs without such a state."""
    ran = pl.col("end") - pl.col("start") - pl.col("suspended").fill_null(0)
    return (ran >= pl.col("time_limit")).fill_null(False)


def fails(policy: FailurePolicy) -> pl.Expr:
    """Build the label: 1 failure, 0 none, null outside the population (`FailurePolicy.fails` for columns)."""
    outcome = pl.col("outcome")
    label = (
        pl.when(outcome.is_null() | outcome.is_in([str(o) for o in policy.left_out]))
        .then(None)
        .otherwise(outcome.is_in([str(o) for o in policy.failures]))
    )
    if policy.cancelled_at_limit_fails:
        label = pl.when((outcome == str(Outcome.CANCELLED)) & ran_to_limit()).then(True).otherwise(label)
    return label.cast(pl.Int8)
