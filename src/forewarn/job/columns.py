"""Records as columns: the schema that sources yield, the store keeps and features read.

A batch of records is a Polars frame with one column for each field of the record's dataclass, the three
columns of `Observation`, and `line`, the place in the file, for messages. The schema is derived from the
dataclasses, so a field added there is a field everywhere.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType, UnionType
from typing import Any, TypeVar, get_args, get_type_hints

import polars as pl

from forewarn.job.record import Job, Node, Observation, Partition, ProgramRun, Record, UsageSample

RECORDS: Mapping[str, type[Record]] = MappingProxyType(
    {"job": Job, "node": Node, "partition": Partition, "usage": UsageSample, "program": ProgramRun}
)
KEYS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "job": ("cluster", "job_id", "submit"),
        "node": ("cluster", "name"),
        "partition": ("cluster", "name"),
        "usage": ("cluster", "job_id", "submit", "at"),
        "program": ("cluster", "job_id", "run_id"),
    }
)
OBSERVATION_COLUMNS: Mapping[str, pl.DataType] = MappingProxyType(
    {"seen_at": pl.Int64(), "source": pl.String(), "reconstructed": pl.Boolean()}
)
_DTYPES: Mapping[type, pl.DataType] = MappingProxyType(
    {str: pl.String(), int: pl.Int64(), float: pl.Float64(), bool: pl.Boolean()}
)
R = TypeVar("R", Job, Node, Partition, UsageSample, ProgramRun)


def record_schema(kind: str) -> dict[str, pl.DataType]:
    """Map each column of one kind of record to its type.

    >>> record_schema("node")["cpu_load"]
    Float64
    """
    hints = get_type_hints(RECORDS[kind])
    return {f.name: _DTYPES[_plain(hints[f.name])] for f in dataclasses.fields(RECORDS[kind])}


def _plain(hint: Any) -> type:
    if isinstance(hint, UnionType):
        (hint,) = (a for a in get_args(hint) if a is not type(None))
    assert isinstance(hint, type)
    return hint


JOB_SCHEMA = record_schema("job")


def observation_schema(kind: str) -> dict[str, pl.DataType]:
    """Map each column of an observed record to its type: the record's columns, then the observation's."""
    return record_schema(kind) | dict(OBSERVATION_COLUMNS)


SCHEMAS: Mapping[str, dict[str, pl.DataType]] = MappingProxyType(
    {kind: observation_schema(kind) for kind in RECORDS}
)


def complete(frame: pl.DataFrame, kind: str = "job") -> pl.DataFrame:
    """Select exactly the columns of the schema (missing ones as nulls), plus `line` if the frame has it."""
    schema, found = SCHEMAS[kind], frozenset(frame.columns)
    extra = ["line"] if "line" in found else []
    return frame.select(
        *(
            pl.col(name).cast(dtype) if name in found else pl.lit(None, dtype).alias(name)
            for name, dtype in schema.items()
        ),
        *extra,
    )


def to_frame(observations: Iterable[Observation], kind: str = "job") -> pl.DataFrame:
    """Convert observations of one kind to a frame."""
    names = [f.name for f in dataclasses.fields(RECORDS[kind])]
    rows = [
        (*(getattr(o.record, n) for n in names), o.seen_at, o.source, o.reconstructed) for o in observations
    ]
    return pl.DataFrame(rows, schema=SCHEMAS[kind], orient="row")


def to_records(frame: pl.DataFrame, record: type[R]) -> Iterator[R]:
    """Convert the rows of a frame to records, one Python object a row: for a few rows, not for a scan."""
    names = [f.name for f in dataclasses.fields(record)]
    for row in frame.select(names).iter_rows():
        yield record(**dict(zip(names, row, strict=True)))


def last_proven_time() -> pl.Expr:
    """Return the last moment that a job's own record proves: the earliest at which it can have been observed.

    Sources leave out times in the future (a pending job's estimated start, a running job's planned end),
    so all times in a record are past.
    """
    return pl.max_horizontal("submit", "start", "end")
