"""The memory that jobs request, as columns of a frame: the same as `memory.py` computes for one job."""

from __future__ import annotations

import polars as pl

COLUMNS = ("memory_asked", "memory_per", "nodes_asked", "cpus_asked", "gpus_asked", "tasks_asked")


def total_memory_column() -> pl.Expr:
    """Compute `total_memory` for each row."""
    counted = (
        pl.when(pl.col("memory_per") == "cpu")
        .then(pl.col("cpus_asked").fill_null(1))
        .when(pl.col("memory_per") == "gpu")
        .then(_at_least_one("gpus_asked"))
        .otherwise(_at_least_one("nodes_asked"))
    )
    return pl.col("memory_asked") * counted


def node_memory_column() -> pl.Expr:
    """Compute `node_memory` for each row."""
    return total_memory_column() / _at_least_one("nodes_asked")


def task_memory_column() -> pl.Expr:
    """Compute `task_memory` for each row."""
    return (
        pl.when(pl.col("tasks_asked") >= 1)
        .then(total_memory_column() / pl.col("tasks_asked"))
        .when(pl.col("memory_per") == "cpu")
        .then(pl.col("memory_asked").cast(pl.Float64))
        .otherwise(node_memory_column())
    )


def _at_least_one(column: str) -> pl.Expr:
    return pl.col(column).fill_null(1).clip(1)
