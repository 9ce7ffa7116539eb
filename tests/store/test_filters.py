"""Filters mean the same said in plain Python and as an expression over columns."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forewarn.operate.job_filters import all_of, in_partition, in_state, one_of, parse_job_ids
from forewarn.store.filters import AllOf, AnyOf, Between, Equal, Filter, Lists, Missing, Not, OneOf

SCHEMA = {
    **{"job_id": pl.String(), "array_job_id": pl.Int64(), "het_job_id": pl.Int64(), "user": pl.String()},
    **{"partition": pl.String(), "outcome": pl.String(), "state": pl.String(), "end": pl.Int64()},
}
USERS = st.sampled_from(["ann", "bob", "cat"])
PARTITIONS = st.sampled_from(["gpu", "long", "gpu,long", "", "gpux"])
ENDS = st.integers(-3, 3)
RECORDS = st.lists(
    st.fixed_dictionaries(
        {"user": st.none() | USERS, "partition": st.none() | PARTITIONS, "end": st.none() | ENDS}
    ),
    max_size=8,
)
LEAVES: st.SearchStrategy[Filter] = st.one_of(
    st.builds(Equal, st.just("user"), st.none() | USERS),
    st.builds(Equal, st.just("end"), ENDS),
    st.builds(OneOf, st.just("user"), st.lists(USERS, max_size=2).map(tuple)),
    st.builds(OneOf, st.just("end"), st.lists(ENDS, max_size=2).map(tuple)),
    st.builds(Missing, st.sampled_from(["user", "partition", "end"])),
    st.builds(Between, st.just("end"), st.none() | ENDS, st.none() | ENDS | st.floats(-3, 3)),
    st.builds(Lists, st.just("partition"), st.lists(st.sampled_from(["gpu", "long"]), max_size=2).map(tuple)),
)
FILTERS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(AllOf, st.lists(inner, max_size=3).map(tuple)),
        st.builds(AnyOf, st.lists(inner, max_size=3).map(tuple)),
        st.builds(Not, inner),
    ),
    max_leaves=6,
)


def chosen(test: Filter, records: list[dict[str, Any]]) -> list[int]:
    frame = pl.DataFrame(records, schema={name: SCHEMA[name] for name in ("user", "partition", "end")})
    return frame.with_row_index("row").filter(test.polars())["row"].to_list()


@settings(max_examples=300, deadline=None)
@given(test=FILTERS, records=RECORDS)
def test_both_ways_choose_the_same(test: Filter, records: list[dict[str, Any]]) -> None:
    assert chosen(test, records) == [n for n, record in enumerate(records) if test.matches(record)]
    assert chosen(~test, records) == [n for n, record in enumerate(records) if not test.matches(record)]


def test_fields_and_operators() -> None:
    test = Equal("user", "ann") & ~Missing("end") | Between("submit", 1, 2)
    assert test.fields == {"user", "end", "submit"}
    assert test == AnyOf((AllOf((Equal("user", "ann"), Not(Missing("end")))), Between("submit", 1, 2)))
    assert len({test, test}) == 1, "a value: it can be kept and compared"


JOBS: list[dict[str, Any]] = [
    dict.fromkeys(SCHEMA) | job
    for job in (
        {"job_id": "123", "user": "ann", "partition": "gpu", "outcome": "failed"},
        {"job_id": "124_1", "array_job_id": 124, "user": "bob", "partition": "long,gpu", "state": "PENDING"},
        {"job_id": "124_2", "array_job_id": 124, "state": "PENDING", "outcome": "cancelled"},
        {"job_id": "124_3", "array_job_id": 124, "partition": "long", "state": "RUNNING"},
        {"job_id": "125+0", "het_job_id": 125, "user": "ann"},
        {"job_id": "125+1", "het_job_id": 125},
        {"job_id": "1234"},
    )
]


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        (parse_job_ids(("123,124_[1-2]",)), [0, 1, 2]),
        (parse_job_ids(("124",)), [1, 2, 3]),
        (parse_job_ids(("125", "124_[1,3%1]")), [1, 3, 4, 5]),
        (parse_job_ids(("125+1",)), [5]),
        (in_partition(("gpu",)), [0, 1]),
        (in_state(("F,PD",)), [0, 1]),
        (in_state(("running",)), [3]),
        (all_of([one_of("user", ("ann,bob",)), in_partition(()), in_partition(("gpu",))]), [0, 1]),
    ],
)
def test_what_the_command_line_asks_for(test: Any, expected: list[int]) -> None:
    test = test if isinstance(test, Filter) else test.test
    found = pl.DataFrame(JOBS, schema=SCHEMA).with_row_index("row").filter(test.polars())
    assert found["row"].to_list() == expected
    assert [n for n, job in enumerate(JOBS) if test.matches(job)] == expected
