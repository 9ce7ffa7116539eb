"""The fields by which jobs are listed and counted: all fields of a job, by our names and by sacct's.

A field is an expression over the columns of the store; how it is formatted follows from what it measures.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

import polars as pl

from forewarn import formatting
from forewarn.errors import UsageError
from forewarn.job.columns import JOB_SCHEMA
from forewarn.job.units import UNLIMITED
from forewarn.store.base import KNOWN_AT

SLURM_TIME = "%Y-%m-%dT%H:%M:%S"


class Measure(Enum):
    """The quantity that a field measures."""

    TEXT = "text"
    COUNT = "count"
    MOMENT = "moment"
    DURATION = "duration"
    MEMORY = "memory"


@dataclass(frozen=True, slots=True)
class JobField:
    """One field of the output."""

    value: pl.Expr
    measure: Measure

    @property
    def columns(self) -> list[str]:
        """The columns of the store that it needs."""
        return self.value.meta.root_names()


_MOMENTS = frozenset({"submit", "eligible", "start", "end", KNOWN_AT})
_DURATIONS = frozenset({"time_limit", "suspended", "cpu_time"})
_MEMORY = frozenset({"memory_asked", "memory_given", "max_memory", "io_read", "io_written"})


def _measure(name: str) -> Measure:
    if name in _MOMENTS:
        return Measure.MOMENT
    if name in _DURATIONS:
        return Measure.DURATION
    if name in _MEMORY:
        return Measure.MEMORY
    return Measure.TEXT if JOB_SCHEMA[name] == pl.String else Measure.COUNT


# sacct's names of fields that are one of ours.
_SACCT_NAMES = {
    "jobid": "job_id",
    "jobidraw": "raw_id",
    "jobname": "name",
    "workdir": "work_dir",
    "submitline": "submit_line",
    "nodelist": "nodes",
    "reqnodes": "nodes_asked",
    "reqcpus": "cpus_asked",
    "alloccpus": "cpus_given",
    "allocnodes": "nodes_given",
    "reqmem": "memory_asked",
    "reqtres": "tres_asked",
    "alloctres": "tres_given",
    "timelimit": "time_limit",
    "derivedexitcode": "derived_exit_code",
    "maxrss": "max_memory",
    "totalcpu": "cpu_time",
    "constraints": "constraint",
    "consumedenergy": "energy",
}
_col = pl.col
FIELDS: Mapping[str, JobField] = MappingProxyType(
    {name: JobField(_col(name), _measure(name)) for name in (*JOB_SCHEMA, KNOWN_AT)}
    | {theirs: JobField(_col(ours), _measure(ours)) for theirs, ours in _SACCT_NAMES.items()}
    | {
        "nnodes": JobField(pl.coalesce("nodes_given", "nodes_asked"), Measure.COUNT),
        "ncpus": JobField(pl.coalesce("cpus_given", "cpus_asked"), Measure.COUNT),
        "elapsed": JobField(_col("end") - _col("start") - _col("suspended").fill_null(0), Measure.DURATION),
        "wait": JobField(_col("start") - _col("submit"), Measure.DURATION),
        # A job that has not ended shows its state in place of an outcome.
        "outcome": JobField(pl.coalesce("outcome", _col("state").str.to_lowercase()), Measure.TEXT),
        "exitcode": JobField(
            pl.format("{}:{}", _col("exit_code"), _col("exit_signal").fill_null(0)), Measure.TEXT
        ),
    }
)


def parse_fields(text: str, option: str = "--format") -> tuple[str, ...]:
    """Parse a list of fields like ``jobid,user,elapsed``.

    >>> parse_fields("JobID, user")
    ('jobid', 'user')
    """
    names = tuple(name.strip().lower() for name in text.split(",") if name.strip())
    for name in names:
        if name not in FIELDS:
            near = difflib.get_close_matches(name, FIELDS, 1)
            hint = f"did you mean {near[0]}?" if near else "--helpformat lists them"
            raise UsageError(f"{option}: no field {name!r}; {hint}")
    if not names:
        raise UsageError(f"{option}: the list is empty; --helpformat lists the fields")
    return names


def columns_of(names: tuple[str, ...]) -> list[str]:
    """Return the columns of the store that these fields need, and the cluster, for its time zone."""
    return list(dict.fromkeys(["cluster", *(column for name in names for column in FIELDS[name].columns)]))


def raw_value(name: str) -> pl.Expr:
    """Return the field's value for programs: in seconds, bytes, or null."""
    return FIELDS[name].value.alias(name)


def as_text(name: str, zones: Mapping[str, str], *, exact: bool) -> pl.Expr:
    """Return the field's value as text, null where it is missing; times in the zone of the job's cluster.

    `exact` is for programs: as sacct writes it, and memory is not rounded. For people it is
    `forewarn.formatting` that formats.
    """
    field = FIELDS[name]
    match field.measure:
        case Measure.MOMENT:
            text = moment_text(field.value, zones, SLURM_TIME if exact else formatting.TIMESTAMP)
        case Measure.DURATION:
            seconds = field.value.cast(pl.Int64)
            text = _duration(seconds) if exact else _formatted(seconds, formatting.duration)
        case Measure.MEMORY:
            text = _exact_memory(field.value) if exact else _formatted(field.value, formatting.byte_size)
        case Measure.COUNT | Measure.TEXT:
            text = field.value.cast(pl.String)
    return text.alias(name)


def _formatted(value: pl.Expr, form: Callable[[float], str]) -> pl.Expr:
    """Format each value for people; every distinct value once, since a column can have millions."""

    def texts(values: pl.Series) -> pl.Series:
        distinct = values.drop_nulls().unique()
        return values.replace_strict(
            distinct, [form(one) for one in distinct], default=None, return_dtype=pl.String
        )

    return value.map_batches(texts, return_dtype=pl.String)


def moment_text(value: pl.Expr, zones: Mapping[str, str], form: str) -> pl.Expr:
    """Write a moment in a form of `strftime`, in the time zone of the job's cluster."""
    moment = pl.from_epoch(value, time_unit="s").dt.replace_time_zone("UTC")
    by_zone = (
        pl.when(_col("cluster").is_in([c for c, z in zones.items() if z == zone])).then(
            moment.dt.convert_time_zone(zone).dt.strftime(form)
        )
        for zone in set(zones.values())
    )
    return pl.coalesce(*by_zone, moment.dt.strftime(form))


def _duration(value: pl.Expr) -> pl.Expr:
    def two(number: pl.Expr) -> pl.Expr:
        return number.cast(pl.String).str.zfill(2)

    clock = pl.format("{}:{}:{}", two(value % 86400 // 3600), two(value % 3600 // 60), two(value % 60))
    return (
        pl.when(value.is_null())
        .then(None)
        .when(value >= UNLIMITED)
        .then(pl.lit("UNLIMITED"))
        .when(value >= 86400)
        .then(pl.format("{}-{}", value // 86400, clock))
        .otherwise(clock)
    )


_UNITS = tuple(zip("PTGMK", (1 << 50, 1 << 40, 1 << 30, 1 << 20, 1 << 10), strict=True))


def _exact_memory(value: pl.Expr) -> pl.Expr:
    """Format memory in the largest unit that keeps it exact, as `units.format_memory` does."""
    text = pl.format("{}B", value)
    for unit, size in reversed(_UNITS):
        text = pl.when(value % size == 0).then(pl.format("{}" + unit, value // size)).otherwise(text)
    return pl.when(value == 0).then(pl.lit("0")).otherwise(text)
