"""What a request looks like to the isolation forest, and how each part of it is said in words.

Amounts are on a log scale: 2 GiB and 4 GiB are as far apart as 200 and 400.
"""

from __future__ import annotations

import math
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
        times = max(ratio, 1 / ratio)
        told = f"{times:,.0f}" if times >= 10 else f"{times:.1f}".removesuffix(".0")
        return f"{what} {told} times {than}" if ratio >= 1 else f"{what} 1/{told} of {than}"

    return say


def _in_partition(jobs: float) -> str:
    if jobs < 1:
        return "this user's first job in the partition"
    return f"{jobs:,.0f} earlier {'job' if jobs == 1 else 'jobs'} of this user in the partition"


def _counted(what: str) -> Callable[[float], str]:
    return lambda n: f"{_number(n)} {what if n == 1 else what + 's'}"


def _number(value: float) -> str:
    """
    >>> _number(30_000.0), _number(1.5), _number(10.66)
    ('30,000', '1.5', '10.7')
    """
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


COLUMNS: Mapping[str, Column] = MappingProxyType(
    {
        "cpus": Column("cpus", _counted("CPU")),
        "nodes": Column("nodes", _counted("node")),
        "tasks": Column("tasks", _counted("task")),
        "gpus": Column("gpus", _counted("GPU")),
        "memory": Column("memory", lambda n: f"{_bytes(n)} memory in all"),
        "memory_per_cpu": Column("memory_per_cpu", lambda n: f"{_bytes(n)} memory a CPU"),
        "cpus_per_node": Column("cpus_per_node", lambda n: f"{_number(n)} CPUs a node"),
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
            _in_partition,
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
            if name.startswith("memory") and not column.ratio:
                values = np.where(values > 0, values, np.nan)  # 0 is Slurm's --mem=0: all, however much
            made[:, place] = values if column.ratio else np.log2(1 + np.maximum(values, 0))
    return made


def in_words(name: str, value: float, below: float, above: float, jobs: int) -> str:
    """A value with how many of the earlier jobs, of which there are `jobs`, have a smaller, or a larger one.

    >>> in_words("cpus", 10.0, 0.998, 0.0, 4000)
    '1,023 CPUs: more than 99.8 % of 4,000 jobs'
    >>> in_words("cpus", 10.0, 1.0, 0.0, 489)
    '1,023 CPUs: more than all 489 jobs'
    >>> in_words("partition", 0.0, 0.0, 0.97, 3000)
    "this user's first job in the partition, unlike 97 % of 3,000 jobs"
    """
    column = COLUMNS[name]
    said = column.says(2**value if column.ratio else round(2**value - 1, 3))
    if name == "partition" and value <= 0:
        return f"{said}, unlike {_share(above, jobs)}"
    if below >= above:
        return f"{said}: more than {_share(below, jobs)}"
    return f"{said}: less than {_share(above, jobs)}"


def _share(part: float, jobs: int) -> str:
    """A share of jobs, told no finer than they are many.

    >>> _share(0.9999, 489), _share(0.9999, 20_000)
    ('99.7 % of 489 jobs', '99.99 % of 20,000 jobs')
    """
    if part >= 1:
        return f"all {jobs:,} jobs"
    digits = max(0, len(str(jobs)) - 2)
    whole = math.floor(part * jobs + 1e-9)  # jobs; a share is rounded down, so that it is not overstated
    shown = math.floor(100 * whole / jobs * 10**digits + 1e-9) / 10**digits
    return f"{shown:.10g} % of {jobs:,} jobs"
