"""What is foreseen of a job: which numbers, on which scale, and what history tells of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import polars as pl
from numpy.typing import NDArray

from forewarn.job.outcomes import Outcome
from forewarn.job.units import UNLIMITED
from forewarn.learn.data.table import JobTable

Floats = NDArray[np.float64]
HISTORIES = ("user", "user_request", "user_name")
_PER_CPU = 2.0  # the feature `memory_per`: 1 node, 2 CPU, 3 GPU
MOST_EFFICIENT = 1.5  # CPU time over what was given: more is a wrong count, not a fast job

GRACE, SELDOM = 1.05, 0.03  # a limit is kept if only so few completed jobs ran longer than so many times it

# Ended by something that had nothing to do with how long the job still had to run, so all that is known is
# that it runs longer. A job that failed by itself, or that its user cancelled, tells nothing of the kind:
# taking those as censored too was worse on SDSC-SP2 (pinball 1.21 against 1.18) and no better on CTC-SP2.
CUT_SHORT = tuple(str(o) for o in (Outcome.TIMEOUT, Outcome.DEADLINE, Outcome.NODE_FAIL, Outcome.PREEMPTED))


@dataclass(frozen=True, slots=True)
class Target:
    """What became of some jobs, in one quantity: its value, or the least that it can be."""

    value: Floats  # NaN where nothing is known
    exact: NDArray[np.bool_]  # else the value is a lower bound

    @property
    def known(self) -> NDArray[np.bool_]:
        """Where anything is known."""
        return np.isfinite(self.value)


@dataclass(frozen=True, slots=True)
class Quantity:
    """One number, and the scale on which its bins are made."""

    name: str
    logarithmic: bool
    anchors: tuple[str, ...]  # columns in the same unit, from which a bin's distance is a column too
    bins: int = 48

    def scaled(self, value: Floats) -> Floats:
        """On the scale of the bins."""
        return np.log2(np.maximum(value, 0.0) + 1.0) if self.logarithmic else value

    def unscaled(self, place: Floats) -> Floats:
        """Back from there."""
        return np.maximum(np.exp2(place) - 1.0, 0.0) if self.logarithmic else place


QUANTITIES: Mapping[str, Quantity] = MappingProxyType(
    {
        q.name: q
        for q in (
            Quantity(
                "run_time",
                True,
                (
                    *("time_limit", "similar_run_time"),
                    *(f"{e}_{what}" for e in HISTORIES for what in ("run_time", "last_run_time")),
                ),
            ),
            Quantity("memory", True, ("unit_memory", "similar_memory", *(f"{e}_memory" for e in HISTORIES))),
            Quantity("cpu_efficiency", False, (), 24),
            Quantity("io_rate", True, (), 24),
        )
    }
)


def targets(table: JobTable) -> dict[str, Target]:
    """What became of the jobs of a table, in each quantity."""
    return targets_of(table.about, unit_memory(table))


def targets_of(about: pl.DataFrame, asked: Floats, limits_kept: bool | None = None) -> dict[str, Target]:
    """The same of rows of `JobTable.about`, with the bytes that each job asked for a task (`unit_memory`).

    `limits_kept` says whether jobs are stopped at their limit; None: by these jobs.
    """
    run_time, limit, cpu_time, memory, io = (
        _numbers(about[name]) for name in ("run_time", "time_limit", "cpu_time", "max_memory", "io_bytes")
    )
    cpus = _numbers(about.select(pl.coalesce("cpus_used", "cpus")).to_series())
    outcome = about["outcome"]
    completed = (outcome == str(Outcome.COMPLETED)).fill_null(False).to_numpy()
    # SWF has no time-out: there a job that ran to its limit is `failed` or `cancelled`.
    stopped = outcome.is_in([str(Outcome.FAILED), str(Outcome.CANCELLED)]).fill_null(False).to_numpy()
    if limits_kept is None:
        limits_kept = keeps_limits(run_time[completed], limit[completed])
    stopped &= (run_time >= limit) & limits_kept
    cut_short = outcome.is_in(CUT_SHORT).fill_null(False).to_numpy() | stopped
    killed = (outcome == str(Outcome.OUT_OF_MEMORY)).fill_null(False).to_numpy()
    seen = completed | cut_short
    # Memory is sampled: of a short job 0 was seen, which is no measurement.
    used = np.where(memory > 0, memory, np.nan)
    needs = np.where(killed, np.fmax(asked, used), np.where(seen, used, np.nan))
    ran = np.where(seen & (run_time > 0), run_time, np.nan)
    efficiency = cpu_time / (ran * cpus)
    return {
        "run_time": Target(np.where(seen, run_time, np.nan), completed),
        "memory": Target(needs, completed),
        "cpu_efficiency": _measured(np.where(efficiency <= MOST_EFFICIENT, efficiency, np.nan)),
        "io_rate": _measured(io / ran),
    }


def keeps_limits(ran: Floats, limit: Floats) -> bool:
    """Whether jobs are stopped at their limit, by those that completed. On LANL-CM5 a fourth ran over it."""
    there = np.isfinite(ran) & np.isfinite(limit)
    return not there.any() or bool((ran[there] > GRACE * limit[there]).mean() < SELDOM)


def anchors(part: JobTable) -> dict[str, Floats]:
    """What history and request say of the quantities, each in its own unit. The kernel keeps ratios."""
    limit, unit = part.column("time_limit").astype(np.float64), unit_memory(part)
    made = {"similar_run_time": limit * np.exp2(-part.column("similar_limit_ratio")), "unit_memory": unit}
    for whose in ("similar", *HISTORIES):
        made[f"{whose}_memory"] = unit * np.exp2(-part.column(f"{whose}_memory_ratio"))
    return made


# The feature that each of those is made from: a set that lacks it lacks them.
MADE_FROM: Mapping[str, str] = MappingProxyType(
    {
        "similar_run_time": "similar_limit_ratio",
        "unit_memory": "memory",
        **{f"{whose}_memory": f"{whose}_memory_ratio" for whose in ("similar", *HISTORIES)},
    }
)


def time_limit(part: JobTable) -> Floats:
    """Seconds that jobs may run; NaN for no limit at all, or one that is not known."""
    limit = part.column("time_limit").astype(np.float64)
    return np.where(limit < UNLIMITED, limit, np.nan)


def memory_a_node(part: JobTable) -> Floats:
    """Bytes a node that jobs asked for; NaN where they asked for none, or for all of a node."""
    total = part.column("memory").astype(np.float64)
    return np.where(total > 0, total / _at_least_one(part.column("nodes")), np.nan)


def unit_memory(part: JobTable) -> Floats:
    """Bytes asked for a task, to set against the largest task's use: the kernel's `task_memory`.

    Where the number of tasks is not told: for a CPU if the request counts so, else for a node.
    """
    total = part.column("memory").astype(np.float64)
    made = total / _units(part)
    return np.where(made > 0, made, np.nan)  # --mem=0 asks for a whole node: how much that is, is not told


def units_per_node(part: JobTable) -> Floats:
    """How many of what memory is measured by share a node."""
    return _units(part) / _at_least_one(part.column("nodes"))


def _units(part: JobTable) -> Floats:
    tasks, cpus, nodes = (part.column(name).astype(np.float64) for name in ("tasks", "cpus", "nodes"))
    by_cpu = part.column("memory_per") == _PER_CPU
    return np.where(tasks >= 1, tasks, _at_least_one(np.where(by_cpu, cpus, nodes)))


def _at_least_one(count: NDArray[np.floating]) -> Floats:
    return np.where(count >= 1, count, 1.0).astype(np.float64)


def _measured(value: Floats) -> Target:
    return Target(np.where(np.isfinite(value), value, np.nan), np.isfinite(value))


def _numbers(column: pl.Series) -> Floats:
    return column.cast(pl.Float64).fill_null(np.nan).to_numpy()
