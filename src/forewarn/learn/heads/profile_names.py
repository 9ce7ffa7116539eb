"""Names of profiles in a few words, and the figures that describe them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from forewarn.formatting import byte_size, duration, significant
from forewarn.job.phase import POSTHOC
from forewarn.learn.data.job_details import FREQUENT, NEW
from forewarn.learn.data.table import JobTable
from forewarn.learn.heads.profiles_space import CATEGORIES, Space, number, type_of

if TYPE_CHECKING:
    from forewarn.learn.heads.profiles import Profiles

# A profile is low (high) in a quantity if less (more) than this share of the jobs lies below its mean.
LOW, HIGH = 0.4, 0.6
ALL = "all jobs"
_NEAR = 0.05  # standard deviations within which a value counts as the mean: many jobs share one request
# From the first value on no profile is low, under the second none is high, whatever the other jobs are: where
# all jobs have one CPU and run for seconds, four CPUs are not large and two minutes are not long.
_ABSOLUTE_BOUNDS = {
    "size": (64, 16),  # CPUs
    "memory": (64 << 30, 32 << 30),  # bytes
    "run_time": (3600, 3600),  # seconds
    "wait": (600, 600),
}
SHORT, LONG = 3600, 8 * 3600  # seconds of run time: under the first a job is short, from the second long
_OFTEN = 1.5  # ratio to the cluster's share from which users of some activity are part of a profile's name


def in_words(
    space: Space,
    means: NDArray[np.float64],
    values: NDArray[np.float64],
    tables: Mapping[str, NDArray[np.float64]],
    weights: NDArray[np.float64],
) -> tuple[str, ...]:
    """Name each profile in a few words, by where its mean lies among the jobs.

    Profiles with the same name get the value of the quantity in which they differ most appended.
    """
    if len(means) == 1:
        return (ALL,)
    away = values[:, None, :] - means
    below = (away < -_NEAR).mean(axis=0) + (abs(away) <= _NEAR).mean(axis=0) / 2
    typical = space.natural(means)
    names = []
    for place in range(len(means)):
        places = zip(space.numbers, below[place], typical[place], strict=True)
        name = phrase({name: _side(name, part, value) for name, part, value in places})
        names.append(name + _users(place, tables, weights))
    namesakes = [[place for place, other in enumerate(names) if other == name] for name in names]
    for place, others in enumerate(namesakes):
        if len(others) > 1:
            most = int(np.argmax(np.ptp(means[others], axis=0)))
            names[place] += f", about {_amount(space.numbers[most], typical[place, most])}"
    return tuple(names)


def _side(name: str, part: float, typical: float) -> int:
    """Return -1 for low and 1 for high, given the share of jobs below the profile's mean, else 0."""
    few, many = _ABSOLUTE_BOUNDS[name]
    return int(part > HIGH and typical >= many) - int(part < LOW and typical < few)


def _amount(name: str, value: float) -> str:
    if name in ("run_time", "wait"):
        return duration(value)
    return f"{significant(value, 3)} CPUs" if name == "size" else byte_size(value)


def phrase(side: Mapping[str, int]) -> str:
    """Name a profile by the quantities in which it is low (-1) or high (1).

    >>> phrase({"size": -1, "memory": -1, "run_time": -1})
    'short and light'
    >>> phrase({"size": 1, "run_time": 1, "wait": 1})
    'large and long, long wait'
    >>> phrase({"size": 0, "memory": 1, "wait": -1})
    'medium, high memory, short wait'
    """
    size, memory, wait = (side.get(name, 0) for name in ("size", "memory", "wait"))
    length = {-1: "short", 1: "long"}.get(side.get("run_time", 0))
    light = size < 0 and memory < 0
    weight = "light" if light else {-1: "small", 1: "large"}.get(size)
    # Usual word order: short and light, but large and long.
    pair = (length, weight) if length == "short" else (weight, length)
    parts = [" and ".join(word for word in pair if word) or "medium"]
    if memory and memory != size:
        parts.append("high memory" if memory > 0 else "low memory")
    if wait:
        parts.append("long wait" if wait > 0 else "short wait")
    return ", ".join(parts)


def _users(place: int, tables: Mapping[str, NDArray[np.float64]], weights: NDArray[np.float64]) -> str:
    """Return the activity of the users, if it distinguishes the profile."""
    if "activity" not in tables:
        return ""
    shares = tables["activity"]
    ratios = shares[place] / (weights @ shares)
    level = int(np.argmax(np.where(shares[place] > 1 / 4, ratios, 0)))
    return f", {CATEGORIES['activity'][level]} users" if ratios[level] >= _OFTEN else ""


def described(profiles: Profiles, table: JobTable, rows: NDArray[np.int64]) -> dict[str, Any]:
    """Describe each profile by its share, its quantities, and the outcomes of its jobs, as JSON."""
    about = table.about[rows].with_columns(
        profile=pl.Series(profiles.posterior(table.about[rows], POSTHOC).argmax(axis=1)),
        fails=pl.Series(table.fails[rows]).fill_nan(None),
        type=type_of(profiles.space.memory_per_cpu),
        duration=pl.when(pl.col("run_time") < SHORT)
        .then(pl.lit("short"))
        .when(pl.col("run_time") < LONG)
        .then(pl.lit("medium"))
        .when(pl.col("run_time").is_not_null())
        .then(pl.lit("long")),
    )
    return {
        "jobs": len(rows),
        "fitted_on": profiles.jobs,
        "number": {
            "chosen": len(profiles.weights),
            "elbow": profiles.curves.elbow or None,
            "lowest_bic": profiles.curves.lowest_bic or None,
            "curves": profiles.curves.to_json(),
        },
        "left_out": dict(profiles.space.left_out),
        "bounds": {
            "duration": {"short_below": SHORT, "long_from": LONG},
            "activity": {"new_below": NEW, "frequent_from": FREQUENT},
            "memory_per_cpu_median": profiles.space.memory_per_cpu,
        },
        "profiles": [
            {"profile": place, "words": words, **_about(about, place, profiles.space.numbers)}
            for place, words in enumerate(profiles.words)
        ],
    }


def _about(jobs: pl.DataFrame, place: int, numbers: tuple[str, ...]) -> dict[str, Any]:
    part = jobs.filter(pl.col("profile") == place)
    return {
        "jobs": part.height,
        "share": part.height / max(jobs.height, 1),
        "users": part["user"].n_unique(),
        "failed": part["fails"].mean(),
        "numbers": {
            name: part.select(
                mean=number(name).mean(), spread=number(name).std(), median=number(name).median()
            ).row(0, named=True)
            for name in numbers
        },
        "outcomes": _mix(part, "outcome", ()),
        "duration": _mix(part, "duration", ("short", "medium", "long")),
        "activity": _mix(part, "activity", CATEGORIES["activity"]),
        "type": _mix(part, "type", CATEGORIES["type"]),
    }


def _mix(part: pl.DataFrame, name: str, levels: tuple[str, ...]) -> dict[str, float]:
    """Return the share of each level among the jobs that have one, known levels first, then by frequency."""
    counts = part[name].drop_nulls().value_counts().sort("count", name, descending=[True, False])
    found: dict[str, int] = {**dict.fromkeys(levels, 0), **dict(counts.iter_rows())}
    whole = sum(found.values())
    return {level: count / whole for level, count in found.items()} if whole else {}
