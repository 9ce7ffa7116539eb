"""Pending arrays in lists of jobs: one task is assessed for all, and is listed for all.

Each pending task gets the newest assessment of its array where it has none of its own. One of them, the first
of those assessed last, stands for all, and their number is in its row.
"""

from __future__ import annotations

import polars as pl

STANDS_FOR = "pending_tasks"  # the pending tasks of the array for which a row stands; null: for itself
HIDDEN = "is_represented"  # whether another row stands for this one
_UNIT = ["cluster", "_array", "submit"]
# The hours of a row, with those of the tasks for which it stands.
HOURS = (pl.col("hours_at_risk") * pl.col(STANDS_FOR).fill_null(1)).alias("hours_at_risk")


def with_arrays(frame: pl.DataFrame, assessment: list[str]) -> pl.DataFrame:
    """Add the two columns to the jobs of a list, in their order; `assessment` names the columns of one."""
    is_task = pl.col("job_id").str.contains("_", literal=True)
    is_pending = pl.col("outcome").is_null() & pl.col("start").is_null() & is_task
    if not frame.select(is_pending.any()).item():
        return frame.with_columns(pl.lit(None, pl.Int64).alias(STANDS_FOR), pl.lit(False).alias(HIDDEN))
    array = pl.col("job_id").str.extract(r"^([^_]*)_").alias("_array")
    tasks = frame.select("cluster", "submit", "job_id", "outcome", "start", *assessment).with_row_index()
    tasks = tasks.filter(is_task).with_columns(array)
    pending = tasks.filter(is_pending)
    newest = (
        tasks.filter(pl.col("made_at").is_not_null())
        .join(pending.select(_UNIT).unique(), on=_UNIT, how="semi")
        .sort(is_pending, "made_at", maintain_order=True)  # those of pending tasks are preferred
        .unique(_UNIT, keep="last", maintain_order=True)
        .select(*_UNIT, *assessment)
    )
    # The task assessed last; without one the first, as in `online_state.newest_first`.
    order = pl.col("made_at").fill_null(-1), pl.col("job_id").str.len_bytes(), pl.col("job_id")
    in_order = pending.sort(*order, descending=[True, False, False])
    is_first = pl.int_range(pl.len()).over(_UNIT) == 0
    marked = in_order.select(
        "index",
        *_UNIT,
        pl.when(is_first).then(pl.len().over(_UNIT)).cast(pl.Int64).alias(STANDS_FOR),
        (~is_first).alias(HIDDEN),
        pl.col("made_at").is_null().alias("_fills"),
    )
    filled = marked.join(newest, on=_UNIT, how="left").drop(_UNIT)
    joined = frame.with_row_index().join(
        filled, on="index", how="left", suffix="_array", maintain_order="left"
    )
    fills = pl.col("_fills").fill_null(False)
    return joined.select(
        *(
            pl.when(fills).then(pl.col(f"{name}_array")).otherwise(pl.col(name)).alias(name)
            if name in assessment
            else name
            for name in frame.columns
        ),
        STANDS_FOR,
        pl.col(HIDDEN).fill_null(False),
    )
