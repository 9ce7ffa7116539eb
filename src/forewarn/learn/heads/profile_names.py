"""Profiles for people: a few words for each, and what its jobs look like and came to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from forewarn.job.phase import POSTHOC
from forewarn.job.units import format_duration
from forewarn.learn.data.table import FREQUENT, NEW, JobTable
from forewarn.learn.heads.profiles_space import CATEGORIES, Space, number, type_of

if TYPE_CHECKING:
    from forewarn.learn.heads.profiles import Profiles

LOW, HIGH = (
    0.4,
    0.6,
)  # the part of the cluster's jobs below a profile's mean, under or over which it has a word
ALL = "all jobs"
_NEAR = 0.05  # standard deviations within which a value is as good as the mean: many jobs share one request
# From the first no profile is low, under the second none is high, however the cluster's others are: where all
# jobs have one CPU and run for seconds, those with four CPUs are not large, and two minutes are not long.
_SENSE = {
    "size": (64, 16),  # CPUs
    "memory": (64 << 30, 32 << 30),  # bytes
    "run_time": (3600, 3600),  # seconds
    "wait": (600, 600),
}
SHORT, LONG = 3600, 8 * 3600  # seconds of run time: under the first a job is short, from the second long
_OFTEN = 1.5  # times the cluster's share, from which a profile is told by its users


def in_words(
    space: Space,
    means: NDArray[np.float64],
    values: NDArray[np.float64],
    tables: Mapping[str, NDArray[np.float64]],
    weights: NDArray[np.float64],
) -> tuple[str, ...]:
    """A few words for each profile, by where its mean lies among the jobs.

    Those that would get the same words are told apart by the number in which they differ most.
    """
    if len(means) == 1:
        return (ALL,)
    away = values[:, None, :] - means
    below = (away < -_NEAR).mean(axis=0) + (abs(away) <= _NEAR).mean(axis=0) / 2
    typical = space.natural(means)
    words = []
    for place in range(len(means)):
        places = zip(space.numbers, below[place], typical[place], strict=True)
        said = phrase({name: _side(name, part, value) for name, part, value in places})
        words.append(said + _users(place, tables, weights))
    alike = [[place for place, other in enumerate(words) if other == said] for said in words]
    for place, others in enumerate(alike):
        if len(others) > 1:
            most = int(np.argmax(np.ptp(means[others], axis=0)))
            words[place] += f", about {_written(space.numbers[most], typical[place, most])}"
    return tuple(words)


def _side(name: str, part: float, typical: float) -> int:
    """-1 for low, 1 for high, of a profile above whose `part` of all jobs it lies."""
    few, many = _SENSE[name]
    return int(part > HIGH and typical >= many) - int(part < LOW and typical < few)


def _written(name: str, value: float) -> str:
    if name in ("run_time", "wait"):
        return format_duration(round(value))
    amount, unit = (value, "CPUs") if name == "size" else (value / 2**30, "GiB")
    return f"{amount:,.0f} {unit}" if amount >= 10 else f"{amount:.2g} {unit}"


def phrase(side: Mapping[str, int]) -> str:
    """Words for which dimensions are low (-1) or high (1).

    >>> phrase({"size": -1, "memory": -1, "run_time": -1})
    'short and light'
    >>> phrase({"size": 1, "run_time": 1, "wait": 1})
    'large and long, after a long wait'
    >>> phrase({"size": 0, "memory": 1, "wait": -1})
    'ordinary, much memory, soon started'
    """
    size, memory, wait = (side.get(name, 0) for name in ("size", "memory", "wait"))
    length = {-1: "short", 1: "long"}.get(side.get("run_time", 0))
    light = size < 0 and memory < 0
    weight = "light" if light else {-1: "small", 1: "large"}.get(size)
    # As one says it: short and light, but large and long.
    pair = (length, weight) if length == "short" else (weight, length)
    said = [" and ".join(word for word in pair if word) or "ordinary"]
    if memory and memory != size:
        said.append("much memory" if memory > 0 else "little memory")
    if wait:
        said.append("after a long wait" if wait > 0 else "soon started")
    return ", ".join(said)


def _users(place: int, tables: Mapping[str, NDArray[np.float64]], weights: NDArray[np.float64]) -> str:
    """Whose jobs they are, where that sets the profile apart."""
    if "activity" not in tables:
        return ""
    shares = tables["activity"]
    times = shares[place] / (weights @ shares)
    level = int(np.argmax(np.where(shares[place] > 1 / 4, times, 0)))
    return f", {CATEGORIES['activity'][level]} users" if times[level] >= _OFTEN else ""


def described(profiles: Profiles, table: JobTable, rows: NDArray[np.int64]) -> dict[str, Any]:
    """How often each profile is, its numbers, its mixes, and what came of its jobs."""
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
    """Shares of the jobs that have it, the usual levels first, others by how often they are."""
    counts = part[name].drop_nulls().value_counts().sort("count", name, descending=[True, False])
    found: dict[str, int] = {**dict.fromkeys(levels, 0), **dict(counts.iter_rows())}
    whole = sum(found.values())
    return {level: count / whole for level, count in found.items()} if whole else {}
