"""The columns of a request in the isolation forest, and the codes of the statements about them.

Amounts are on a log scale: 2 GiB and 4 GiB are as far apart as 200 and 400.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from forewarn.evidence import Statement
from forewarn.learn.data.table import JobTable
from forewarn.learn.heads.unusual_codes import UnusualCode

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Column:
    """A number of a job, computed from one feature of the table."""

    feature: str
    ratio: bool = False  # the feature is the log2 of a ratio already
    private: bool = False  # from the history of the job's user


COLUMNS: Mapping[str, Column] = MappingProxyType(
    {
        "cpus": Column("cpus"),
        "nodes": Column("nodes"),
        "tasks": Column("tasks"),
        "gpus": Column("gpus"),
        "memory": Column("memory"),
        "memory_per_cpu": Column("memory_per_cpu"),
        "cpus_per_node": Column("cpus_per_node"),
        "time_limit": Column("time_limit"),
        "limit_change": Column("user_limit_change", ratio=True, private=True),
        "cpus_change": Column("user_cpus_change", ratio=True, private=True),
        "limit_ratio": Column("user_limit_ratio", ratio=True, private=True),
        "memory_ratio": Column("user_memory_ratio", ratio=True, private=True),
        "partition": Column("user_partition_ended", private=True),
    }
)


def columns_of(table: JobTable, names: Sequence[str], rows: NDArray[np.int64] | None = None) -> Floats:
    """Return the columns of jobs (job × column), NaN where a job or the table lacks one."""
    count = len(table.values) if rows is None else len(rows)
    columns = np.full((count, len(names)), np.nan)
    for place, name in enumerate(names):
        column = COLUMNS[name]
        if column.feature in table.names:
            values = table.column(column.feature).astype(np.float64)
            values = values if rows is None else values[rows]
            if name.startswith("memory") and not column.ratio:
                values = np.where(values > 0, values, np.nan)  # 0 is --mem=0: all memory of the node
            columns[:, place] = values if column.ratio else np.log2(1 + np.maximum(values, 0))
    return columns


def unusual(name: str, value: float, below: float, above: float, jobs: int) -> Statement:
    """State a column's value, with the shares of `jobs` earlier jobs with a smaller and a larger one.

    >>> unusual("cpus", 10.0, 0.998, 0.0, 4000).values
    {'value': 1023.0, 'below': 0.998, 'above': 0.0, 'jobs': 4000}
    """
    natural = 2**value if COLUMNS[name].ratio else round(2**value - 1, 3)
    values = {"value": float(natural), "below": below, "above": above, "jobs": jobs}
    return Statement(UnusualCode(f"unusual_{name}"), values)
