"""The dimensions in which jobs are compared: size, memory, run time, wait, user activity, and type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from forewarn.errors import UsageError
from forewarn.formatting import percent
from forewarn.job.phase import POSTHOC, Phase

# Numbers, each a column of `JobTable.about`, used as log(1 + x): all of them span several orders of
# magnitude.
NUMBERS: Mapping[str, str] = MappingProxyType(
    {"size": "cpus", "memory": "memory", "run_time": "run_time", "wait": "wait"}
)
CATEGORIES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"activity": ("new", "infrequent", "frequent"), "type": ("balanced", "compute", "memory")}
)
_REQUEST = frozenset({"size", "memory", "activity", "type"})
KNOWN: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        Phase.SUBMIT: _REQUEST,
        Phase.START: _REQUEST | {"wait"},
        POSTHOC: _REQUEST | {"wait", "run_time"},
    }
)
# The ratio to the cluster's median memory per CPU from which a job has the type memory, and below whose
# inverse it has the type compute.
APART = 2.0
PRESENT = 0.5  # share of jobs that must have a dimension


@dataclass(frozen=True, slots=True)
class Space:
    """The dimensions of a cluster's jobs, the standardisation of numbers, and what is left out and why."""

    numbers: tuple[str, ...]
    centre: NDArray[np.float64]  # of log(1 + x)
    scale: NDArray[np.float64]
    categories: tuple[str, ...]
    memory_per_cpu: float | None  # the median, in bytes
    left_out: Mapping[str, str]

    @classmethod
    def fit(cls, about: pl.DataFrame) -> Self:
        """Choose the dimensions that most of the jobs have and in which they differ."""
        left_out = {}
        logs = _logs(about, tuple(NUMBERS))
        centre, scale = {}, {}
        for place, name in enumerate(NUMBERS):
            present = logs[np.isfinite(logs[:, place]), place]
            if why := _why_useless(present, about.height):
                left_out[name] = why
            else:
                centre[name], scale[name] = float(present.mean()), float(present.std())
        per_cpu = about.select(_per_cpu().median()).item() if "memory" in centre else None
        for name in CATEGORIES:
            codes = _codes(about, name, per_cpu)
            if why := _why_useless(codes[codes >= 0], about.height):
                left_out[name] = why
        return cls(
            tuple(centre),
            np.array(list(centre.values())),
            np.array(list(scale.values())),
            tuple(name for name in CATEGORIES if name not in left_out),
            per_cpu,
            left_out,
        )

    def values(self, about: pl.DataFrame, phase: str) -> NDArray[np.float64]:
        """Return the standardised numbers of each job; NaN for what it lacks or is not known at the phase."""
        known = _known(phase)
        standardised = np.full((about.height, len(self.numbers)), np.nan)
        places = [place for place, name in enumerate(self.numbers) if name in known]
        logs = _logs(about, tuple(self.numbers[place] for place in places))
        standardised[:, places] = (logs - self.centre[places]) / self.scale[places]
        return standardised

    def codes(self, about: pl.DataFrame, phase: str) -> dict[str, NDArray[np.int64]]:
        """Return the categories of each job as places in `CATEGORIES`, -1 for unknown."""
        known = _known(phase)
        return {
            name: _codes(about, name, self.memory_per_cpu) if name in known else np.full(about.height, -1)
            for name in self.categories
        }

    def natural(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Convert standardised numbers back to CPUs, bytes and seconds."""
        return np.expm1(values * self.scale + self.centre).clip(0)

    def to_json(self) -> dict[str, Any]:
        """Return what the bundle stores."""
        return {
            "numbers": list(self.numbers),
            "centre": self.centre.tolist(),
            "scale": self.scale.tolist(),
            "categories": {name: list(CATEGORIES[name]) for name in self.categories},
            "memory_per_cpu": self.memory_per_cpu,
            "left_out": dict(self.left_out),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Read what the bundle stores."""
        return cls(
            tuple(value["numbers"]),
            np.array(value["centre"], np.float64),
            np.array(value["scale"], np.float64),
            tuple(value["categories"]),
            value["memory_per_cpu"],
            dict(value["left_out"]),
        )


def number(name: str) -> pl.Expr:
    """Return a job's number in its own unit: CPUs, bytes, seconds."""
    column = pl.col(NUMBERS[name])
    # A request of 0 (--mem=0) means all memory of the node, an unknown amount.
    return pl.when(column > 0).then(column) if name == "memory" else column


def type_of(memory_per_cpu: float | None) -> pl.Expr:
    """Return each job's type by its memory per CPU relative to the median; null without a request."""
    if not memory_per_cpu:
        return pl.lit(None, pl.String)
    ratio = _per_cpu() / memory_per_cpu
    return (
        pl.when(ratio >= APART)
        .then(pl.lit("memory"))
        .when(ratio <= 1 / APART)
        .then(pl.lit("compute"))
        .when(ratio.is_not_null())
        .then(pl.lit("balanced"))
    )


def _known(phase: str) -> frozenset[str]:
    if phase not in KNOWN:
        raise UsageError(f"unknown phase {phase!r}; use one of {', '.join(KNOWN)}")
    return KNOWN[phase]


def _per_cpu() -> pl.Expr:
    return number("memory") / pl.when(pl.col("cpus") > 0).then(pl.col("cpus"))


# The following is in NumPy: for the single row of a job that is assessed, Polars takes twenty times as long.


def _numbers(about: pl.DataFrame, name: str) -> NDArray[np.float64]:
    """Return the same as `number`, with NaN for null."""
    values = about[NUMBERS[name]].to_numpy().astype(np.float64)
    return np.where(values > 0, values, np.nan) if name == "memory" else values


def _logs(about: pl.DataFrame, names: tuple[str, ...]) -> NDArray[np.float64]:
    logs = np.empty((about.height, len(names)))
    for place, name in enumerate(names):
        logs[:, place] = np.log1p(np.maximum(_numbers(about, name), 0))
    return np.where(np.isfinite(logs), logs, np.nan)


def _codes(about: pl.DataFrame, name: str, memory_per_cpu: float | None) -> NDArray[np.int64]:
    levels = CATEGORIES[name]
    if name == "type":
        if not memory_per_cpu:
            return np.full(about.height, -1)
        cpus = _numbers(about, "size")
        ratio = _numbers(about, "memory") / np.where(cpus > 0, cpus, np.nan) / memory_per_cpu
        conditions = [ratio >= APART, ratio <= 1 / APART, np.isfinite(ratio)]
        return np.select(conditions, [levels.index(word) for word in ("memory", "compute", "balanced")], -1)
    code_of_level = {level: place for place, level in enumerate(levels)}
    return np.array([code_of_level.get(word, -1) for word in about[name]], np.int64)


def _why_useless(values: NDArray[Any], jobs: int) -> str | None:
    """Say why a dimension cannot be used, if so, by the values of the jobs that have it."""
    if not len(values):
        return "no job has it"
    if len(values) < PRESENT * jobs:
        return f"only {percent(len(values) / jobs)} of the jobs have it"
    return "the same for all jobs" if values.min() == values.max() else None
