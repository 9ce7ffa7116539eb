"""Outcomes of the jobs of an answer, without times that lie in the future."""

from __future__ import annotations

import polars as pl

from forewarn.sources.slurm import unit_columns as units

STEPS_OUTCOME = "_steps_outcome"  # the outcome that a job's steps show; only accounting has it


def fill_outcomes(frame: pl.DataFrame, seen_at: int | None) -> pl.DataFrame:
    """Fill in outcomes; drop estimated and planned times, and exit codes of jobs that have not ended.

    `seen_at` is the time of the answer, where it is known.
    """
    by_steps = pl.col(STEPS_OUTCOME) if STEPS_OUTCOME in frame.columns else pl.lit(None, pl.String)
    signals = pl.col("exit_signal"), pl.col("_derived_signal")
    frame = frame.with_columns(outcome=units.outcome(pl.col("state")))
    frame = frame.with_columns(outcome=units.exact_outcome(pl.col("outcome"), by_steps, *signals))
    ended = pl.col("outcome").is_not_null()
    # A job cancelled while pending has its end as its start, but it never had nodes.
    ran = pl.col("state").ne_missing("PENDING") & ~(ended & pl.col("nodes").is_null())
    frame = frame.with_columns(
        start=pl.when(ran & _past("start", seen_at)).then("start"),
        end=pl.when(ended & _past("end", seen_at)).then("end"),
    )
    # `--begin` may be in the future. In an answer without a time, a start or an end proves that it has
    # passed.
    latest = pl.lit(seen_at) if seen_at is not None else pl.max_horizontal("submit", "start", "end")
    code = pl.coalesce(
        # Where slurmdb omits the code of a process that exited by itself: only 0 is COMPLETED.
        "exit_code",
        pl.when((pl.col("state") == "COMPLETED") & (pl.col("exit_signal") == 0)).then(0),
    )
    return frame.with_columns(
        pl.when(ended).then(pl.col("exit_signal", "derived_exit_code")).name.keep(),
        exit_code=pl.when(ended).then(code),
        eligible=pl.when(pl.col("eligible") <= pl.min_horizontal(latest, "end")).then("eligible"),
        suspended=pl.when(pl.col("start").is_not_null()).then("suspended"),
    )


def _past(name: str, seen_at: int | None) -> pl.Expr:
    return pl.lit(True) if seen_at is None else pl.col(name) <= seen_at
