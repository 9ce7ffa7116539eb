"""What a request looks like to the isolation forest, and how each part of it is said in words.

Amounts are on a log scale: 2 GiB and 4 GiB are as far apart as 200 and 400.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from forewarn.job.units import UNLIMITED, format_duration
from forewarn.learn.table import Table

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Column:
    """One number of a job: the feature of the table behind it, and its words."""

    feature: str
    says: Callable[[float], str]
    ratio: bool = False  # the feature is a log2 of a ratio already
    private: bool = False  # from the history of the job's user


def _bytes(amount: float) -> str:
    for unit, size in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20)):
        if amount >= size:
            return f"{amount / size:,.1f}".removesuffix(".0") + f" {unit}"
    return f"{amount / 1024:,.0f} KiB"


def _time(seconds: float) -> str:
    return (
        "no time limit" if seconds >= UNLIMITED / 2 else f"a time limit of {format_duration(round(seconds))}"
    )


def _times(what: str, than: str) -> Callable[[float], str]:
    def say(ratio: float) -> str:
        if ratio >= 1:
            return f"{what} {ratio:,.3g} times {than}"
        return f"{what} 1/{1 / ratio:,.3g} of {than}"

    return say


COLUMNS: Mapping[str, Column] = MappingProxyType(
    {
        "cpus": Column("cpus", lambda n: f"{n:,.0f} CPUs"),
        "nodes": Column("nodes", lambda n: f"{n:,.0f} nodes"),
        "tasks": Column("tasks", lambda n: f"{n:,.0f} tasks"),
        "gpus": Column("gpus", lambda n: f"{n:,.0f} GPUs"),
        "memory": Column("memory", lambda n: f"{_bytes(n)} of memory in all"),
        "memory_per_cpu": Column("memory_per_cpu", lambda n: f"{_bytes(n)} of memory a CPU"),
        "cpus_per_node": Column("cpus_per_node", lambda n: f"{n:,.3g} CPUs a node"),
        "time_limit": Column("time_limit", _time),
        "limit_change": Column(
            "user_limit_change",
            _times("a time limit", "that of this user's last job"),
            ratio=True,
            private=True,
        ),
        "cpus_change": Column(
            "user_cpus_change", _times("CPUs", "those of this user's last job"), ratio=True, private=True
        ),
        "limit_ratio": Column(
            "user_limit_ratio",
            _times("a time limit", "this user's usual run time"),
            ratio=True,
            private=True,
        ),
        "memory_ratio": Column(
            "user_memory_ratio",
            _times("memory", "what this user's jobs usually use"),
            ratio=True,
            private=True,
        ),
        "partition": Column(
            "user_partition_ended",
            lambda n: f"{n:,.0f} earlier jobs of this user in the partition",
            private=True,
        ),
    }
)


def columns_of(table: Table, names: Sequence[str], rows: NDArray[np.int64] | None = None) -> Floats:
    """Job × column, NaN where a job lacks it or the table does."""
    count = len(table.values) if rows is None else len(rows)
    made = np.full((count, len(names)), np.nan)
    for place, name in enumerate(names):
        column = COLUMNS[name]
        if column.feature in table.names:
            values = table.column(column.feature).astype(np.float64)
            values = values if rows is None else values[rows]
            made[:, place] = values if column.ratio else np.log2(1 + np.maximum(values, 0))
    return made


def in_words(name: str, value: float, below: float) -> str:
    """A value with how many of the earlier jobs have a smaller, or a larger one.

    >>> in_words("cpus", 10.0, 0.998)
    '1,023 CPUs: more than 99.8 % of jobs'
    """
    column = COLUMNS[name]
    said = column.says(2**value if column.ratio else 2**value - 1)
    if below >= 0.5:
        return f"{said}: more than {_share(below)} of jobs"
    return f"{said}: less than {_share(1 - below)} of jobs"


def _share(part: float) -> str:
    return f"{min(part, 0.9999) * 100:.4g} %"
