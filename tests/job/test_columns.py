"""Tests of the conversion of records to columns and back."""

from __future__ import annotations

import dataclasses
from typing import Any, get_type_hints

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forewarn.job.columns import (
    KEYS,
    OBSERVATION_COLUMNS,
    RECORDS,
    SCHEMAS,
    complete,
    last_proven_time,
    record_schema,
    to_frame,
    to_records,
)
from forewarn.job.record import Job, Observation

VALUES: dict[Any, st.SearchStrategy[Any]] = {
    str: st.text(max_size=12),
    int: st.integers(-(2**63), 2**63 - 1),
    float: st.floats(allow_nan=False),
    bool: st.booleans(),
}


def record_strategy(kind: str) -> st.SearchStrategy[Any]:
    """Generate records of a kind with any of their optional fields missing."""
    record: Any = RECORDS[kind]
    hints = get_type_hints(record)
    fields = {}
    for f in dataclasses.fields(record):
        plain = hints[f.name] if isinstance(hints[f.name], type) else hints[f.name].__args__[0]
        optional = f.default is not dataclasses.MISSING
        fields[f.name] = st.none() | VALUES[plain] if optional else VALUES[plain]
    return st.fixed_dictionaries(fields).map(lambda values: record(**values))


@pytest.mark.parametrize("kind", RECORDS)
@settings(max_examples=25)
@given(data=st.data())
def test_round_trip(kind: str, data: st.DataObject) -> None:
    records = data.draw(st.lists(record_strategy(kind), max_size=4))
    frame = to_frame(
        (Observation(seen_at=1, source="s", reconstructed=False, record=r) for r in records), kind
    )
    assert dict(frame.schema) == SCHEMAS[kind]
    record: Any = RECORDS[kind]
    assert list(to_records(frame, record)) == records


@pytest.mark.parametrize("kind", RECORDS)
def test_the_key_is_always_there(kind: str) -> None:
    required = {f.name for f in dataclasses.fields(RECORDS[kind]) if f.default is dataclasses.MISSING}
    assert set(KEYS[kind]) == required
    assert not set(OBSERVATION_COLUMNS) & set(record_schema(kind)), (
        "a record's field would hide when it was seen"
    )


def test_complete_adds_orders_and_keeps_the_line() -> None:
    frame = pl.DataFrame({"line": [3], "submit": [5], "job_id": ["1"], "unheard_of": [0]})
    done = complete(frame)
    assert done.columns == [*SCHEMAS["job"], "line"]
    assert done["user"].null_count() == 1
    assert complete(done).equals(done)


def test_a_moment_is_proven_by_the_latest_time_there_is() -> None:
    frame = complete(pl.DataFrame({"submit": [5, 5, 5], "start": [None, 7, 7], "end": [None, None, 9]}))
    assert frame.select(last_proven_time()).to_series().to_list() == [5, 7, 9]


def test_run_time_is_without_suspension() -> None:
    job = Job(cluster="c", job_id="1", submit=0, start=10, end=40, suspended=5)
    assert job.run_time == 25
    assert job.key == ("c", "1", 0)
    assert dataclasses.replace(job, start=None).run_time is None
