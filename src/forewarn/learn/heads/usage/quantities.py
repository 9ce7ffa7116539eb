"""The quantities that are forecast for a job: their scales, and their values in the history."""

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
MOST_EFFICIENT = 1.5  # CPU time over allocated CPU time: more is a wrong count, not a fast job

# Limits are enforced if at most the share `SELDOM` of the completed jobs ran longer than `GRACE` times
# theirs.
GRACE, SELDOM = 1.05, 0.03

# Outcomes that are independent of how long the job still had to run, so that only a lower bound is known. A
# job that failed by itself, or that its user cancelled, gives no such bound: treating those as censored too
# was worse on SDSC-SP2 (pinball loss 1.21 instead of 1.18) and no better on CTC-SP2.
CUT_SHORT = tuple(str(o) for o in (Outcome.TIMEOUT, Outcome.DEADLINE, Outcome.NODE_FAIL, Outcome.PREEMPTED))


@dataclass(frozen=True, slots=True)
class Target:
    """The true values of one quantity for some jobs, or lower bounds."""

    value: Floats  # NaN where nothing is known
    exact: NDArray[np.bool_]  # else the value is a lower bound

    @property
    def known(self) -> NDArray[np.bool_]:
        """Check for each job whether anything is known."""
        return np.isfinite(self.value)


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number that is forecast, and the scale of its bins."""

    name: str
    logarithmic: bool
    anchors: tuple[str, ...]  # columns in the same unit; the distance of a bin from each is a column too
    bins: int = 48

    def scale(self, value: Floats) -> Floats:
        """Convert values to the scale of the bins."""
        return np.log2(np.maximum(value, 0.0) + 1.0) if self.logarithmic else value

    def unscale(self, place: Floats) -> Floats:
        """Convert values back from the scale of the bins."""
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
    """Return the true values of each quantity for the jobs of a table."""
    return targets_of(table.about, unit_memory(table))


def targets_of(
    about: pl.DataFrame, requested: Floats, limits_enforced: bool | None = None
) -> dict[str, Target]:
    """Return the same for rows of `JobTable.about`, with the requested bytes per task (`unit_memory`).

    `limits_enforced` tells whether jobs are stopped at their limit; None: derived from these jobs.
    """
    run_time, limit, cpu_time, memory, io = (
        _numbers(about[name]) for name in ("run_time", "time_limit", "cpu_time", "max_memory", "io_bytes")
    )
    cpus = _numbers(about.select(pl.coalesce("cpus_used", "cpus")).to_series())
    outcome = about["outcome"]
    completed = (outcome == str(Outcome.COMPLETED)).fill_null(False).to_numpy()
    # SWF has no timeout: there a job that ran to its limit is `failed` or `cancelled`.
    stopped = outcome.is_in([str(Outcome.FAILED), str(Outcome.CANCELLED)]).fill_null(False).to_numpy()
    if limits_enforced is None:
        limits_enforced = limits_are_enforced(run_time[completed], limit[completed])
    stopped &= (run_time >= limit) & limits_enforced
    cut_short = outcome.is_in(CUT_SHORT).fill_null(False).to_numpy() | stopped
    killed = (outcome == str(Outcome.OUT_OF_MEMORY)).fill_null(False).to_numpy()
    has_value = completed | cut_short
    # Memory is sampled: 0 means that the job ended before the first sample, which is no measurement.
    used = np.where(memory > 0, memory, np.nan)
    needed = np.where(killed, np.fmax(requested, used), np.where(has_value, used, np.nan))
    ran = np.where(has_value & (run_time > 0), run_time, np.nan)
    efficiency = cpu_time / (ran * cpus)
    return {
        "run_time": Target(np.where(has_value, run_time, np.nan), completed),
        "memory": Target(needed, completed),
        "cpu_efficiency": _measured(np.where(efficiency <= MOST_EFFICIENT, efficiency, np.nan)),
        "io_rate": _measured(io / ran),
    }


def limits_are_enforced(ran: Floats, limit: Floats) -> bool:
    """Check by completed jobs whether jobs are stopped at their limit. On LANL-CM5 a fourth ran over it."""
    known = np.isfinite(ran) & np.isfinite(limit)
    return not known.any() or bool((ran[known] > GRACE * limit[known]).mean() < SELDOM)


def anchors(part: JobTable) -> dict[str, Floats]:
    """Compute columns in the units of the quantities from request and history. The features are ratios."""
    limit, unit = part.column("time_limit").astype(np.float64), unit_memory(part)
    columns = {"similar_run_time": limit * np.exp2(-part.column("similar_limit_ratio")), "unit_memory": unit}
    for entity in ("similar", *HISTORIES):
        columns[f"{entity}_memory"] = unit * np.exp2(-part.column(f"{entity}_memory_ratio"))
    return columns


# The feature that each of these columns is computed from: a feature set without it lacks the column too.
SOURCE_FEATURES: Mapping[str, str] = MappingProxyType(
    {
        "similar_run_time": "similar_limit_ratio",
        "unit_memory": "memory",
        **{f"{entity}_memory": f"{entity}_memory_ratio" for entity in ("similar", *HISTORIES)},
    }
)


def time_limit(part: JobTable) -> Floats:
    """Return the time limit in seconds; NaN for no limit, or an unknown one."""
    limit = part.column("time_limit").astype(np.float64)
    return np.where(limit < UNLIMITED, limit, np.nan)


def memory_per_node(part: JobTable) -> Floats:
    """Return the requested bytes per node; NaN without a request, or for all memory of a node."""
    total = part.column("memory").astype(np.float64)
    return np.where(total > 0, total / _at_least_one(part.column("nodes")), np.nan)


def unit_memory(part: JobTable) -> Floats:
    """Return the requested bytes per task, to compare with the largest task: the kernel's `task_memory`.

    Where the number of tasks is unknown: per CPU if the request is per CPU, else per node.
    """
    total = part.column("memory").astype(np.float64)
    per_unit = total / _units(part)
    return np.where(per_unit > 0, per_unit, np.nan)  # --mem=0 is all memory of the node, an unknown amount


def units_per_node(part: JobTable) -> Floats:
    """Return how many of the units by which memory is measured share a node."""
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
