"""Tests that the columnar readers agree with the scalar ones of `forewarn.job.units`."""

from __future__ import annotations

import datetime as dt
import re
import warnings
from collections.abc import Callable
from typing import Any
from zoneinfo import ZoneInfo

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.job.outcomes import LIVE_STATES, OUTCOME_OF_STATE, UnknownStateWarning, outcome_of_state
from forewarn.job.units import UNLIMITED, format_memory, format_tres, parse_duration, parse_memory, parse_tres
from forewarn.sources.slurm import unit_columns as units

SPACE = st.sampled_from(["", " ", "  "])
WORDS = st.sampled_from(
    ["", "UNLIMITED", "Unlimited", "INFINITE", "Partition_Limit", "N/A", "None", "Unknown"]
)
SMALL = st.integers(0, 99_999).map(str)
DURATIONS = st.one_of(
    WORDS,
    SMALL,
    st.from_regex(r"[0-9]{1,4}:[0-9]{1,2}(:[0-9]{1,2})?(\.[0-9]{1,3})?", fullmatch=True),
    st.from_regex(r"[0-9]{1,3}-[0-9]{1,2}(:[0-9]{1,2}){0,2}", fullmatch=True),
    st.text("0123456789:-.dx ", max_size=8),
)
SIZES = st.one_of(
    WORDS,
    st.from_regex(r"[0-9]{1,5}(\.[0-9]{1,3})?([KMGTkmgt]([Ii]?[Bb])?)?[cnCN]?", fullmatch=True),
    st.from_regex(r"[0-9]{1,3}[BPbp][cn]?", fullmatch=True),
    st.text("0123456789.KMGcn ", max_size=6),
)


def column(texts: list[str], read: Callable[[pl.Expr], pl.Expr]) -> list[Any]:
    return (
        pl.DataFrame({"t": texts}, schema={"t": pl.String})
        .select(read(pl.col("t")).alias("v"))["v"]
        .to_list()
    )


def scalar(read: Callable[[str], Any]) -> Callable[[str], Any]:
    def quiet(text: str) -> Any:
        try:
            return read(text)
        except ValueError:
            return None

    return quiet


@given(st.lists(st.builds("{}{}{}".format, SPACE, DURATIONS, SPACE), max_size=20), st.sampled_from([1, 60]))
def test_durations(texts: list[str], bare: int) -> None:
    assert column(texts, lambda t: units.duration(t, bare=bare)) == [
        scalar(lambda text: parse_duration(text, bare=bare))(text) for text in texts
    ]


@given(st.integers(0, 10**7), st.integers(0, 59), st.integers(0, 999))
def test_cpu_times_keep_their_decimals(minutes: int, seconds: int, milli: int) -> None:
    (found,) = column([f"{minutes}:{seconds:02}.{milli:03}"], units.fine_duration)
    assert found == pytest.approx(minutes * 60 + seconds + milli / 1000)


@given(st.lists(st.builds("{}{}{}".format, SPACE, SIZES, SPACE), max_size=20), st.sampled_from("KM"))
def test_memory(texts: list[str], bare: str) -> None:
    expected = [scalar(lambda text: parse_memory(text, bare=bare))(text) for text in texts]
    assert column(texts, lambda t: units.memory(t, bare=bare)) == [m and m.bytes for m in expected]
    assert column(texts, units.memory_per) == [m and m.per for m in expected]


@given(
    st.dictionaries(
        st.sampled_from(["cpu", "node", "billing", "gres/gpu", "gres/gpu:a100", "license/x"]),
        st.integers(0, 10**6),
        min_size=1,
    ),
    st.integers(0, 10**6),
)
def test_tres(counts: dict[str, int], memory: int) -> None:
    text = (
        ",".join(f"{name}={count}" for name, count in counts.items()) + f",mem={format_memory(memory << 20)}"
    )
    (found,) = column([text], units.tres)
    assert found["text"] == format_tres(parse_tres(text))
    assert parse_tres(found["text"]) == parse_tres(text)
    assert (found["cpu"], found["node"], found["mem"]) == (
        counts.get("cpu"),
        counts.get("node"),
        memory << 20,
    )


def test_tres_that_are_none() -> None:
    assert column(["", "(null)", "cpu", "cpu=x"], units.tres) == [None] * 4


def test_outcomes_follow_the_scalar_rule() -> None:
    states = [*OUTCOME_OF_STATE, *LIVE_STATES]
    assert column(states, units.outcome) == [outcome_of_state(state) for state in states]


def test_an_unknown_state_warns_once_and_is_unknown() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert column(["STATE_OF_TEST_UNITS", "STATE_OF_TEST_UNITS"], units.outcome) == ["unknown"] * 2
        column(["STATE_OF_TEST_UNITS"], units.outcome)
    assert [w.category for w in caught] == [UnknownStateWarning]


@given(
    st.lists(st.datetimes(dt.datetime(1990, 1, 1), dt.datetime(2040, 1, 1)), max_size=20),
    st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata"]),
)
def test_moments(times: list[dt.datetime], zone: str) -> None:
    times = [t.replace(microsecond=0) for t in times]

    def seconds(time: dt.datetime) -> int | None:
        there = time.replace(tzinfo=ZoneInfo(zone))
        back = there.astimezone(dt.UTC).astimezone(ZoneInfo(zone)).replace(tzinfo=None)
        return int(there.timestamp()) if back == time else None  # else the clock skipped it

    texts = [t.isoformat() for t in times]
    assert column(texts, lambda t: units.moment(t, zone)) == [seconds(t) for t in times]


def test_the_hour_that_comes_twice_and_the_one_that_never_comes() -> None:
    twice, never = "2024-10-27T02:30:00", "2024-03-31T02:30:00"
    first, second = (
        column([twice], lambda t, which=which: units.moment(t, "Europe/Berlin", ambiguous=which))[0]  # type: ignore[misc]
        for which in ("earliest", "latest")
    )
    assert second - first == 3600
    assert column([never], lambda t: units.moment(t, "Europe/Berlin")) == [None]


def test_absent_words() -> None:
    assert column(["Unknown", " none ", "", "(null)", "x"], units.present) == [None] * 4 + ["x"]


@given(st.from_regex(r"[0-9]{1,3}:[0-9]{1,3}", fullmatch=True))
def test_exit_codes(text: str) -> None:
    match = re.fullmatch(r"(\d+):(\d+)", text)
    assert match is not None
    code, signal = map(int, match.groups())
    known = [code, signal] if code <= 255 and signal <= 127 else [None, None]
    assert column([text], units.exit_code) + column([text], units.exit_signal) == known


def test_many_of_few_durations_are_read_as_one_of_each() -> None:
    texts = ["00:00:00", None, "1-00:00:00", "UNLIMITED", "soon"] * 50
    found = pl.DataFrame({"t": texts}).select(units.duration(pl.col("t")))["t"].to_list()
    assert found == [0, None, 86400, UNLIMITED, None] * 50
