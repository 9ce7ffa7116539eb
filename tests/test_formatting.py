"""The one formatter of numbers for people; what each form looks like stands in its doctests."""

from __future__ import annotations

from datetime import UTC
from zoneinfo import ZoneInfo

import pytest

from forewarn import formatting
from forewarn.job.units import UNLIMITED, parse_duration


@pytest.mark.parametrize("seconds", [0, 59, 60, 3600, 86_399, 86_400, 10 * 86_400 + 3601])
def test_slurm_reads_a_duration_back_as_the_same_number_of_seconds(seconds: int) -> None:
    assert parse_duration(formatting.duration(seconds)) == seconds


def test_unlimited_of_slurm_is_no_limit() -> None:
    assert formatting.duration(UNLIMITED) == formatting.rough_duration(float(UNLIMITED)) == "no limit"


@pytest.mark.parametrize(
    "form",
    [
        formatting.percent,
        formatting.percent_in_table,
        formatting.byte_size,
        formatting.duration,
        formatting.rough_duration,
        formatting.number,
        formatting.measure,
        formatting.difference,
        lambda value: formatting.timestamp(value, "UTC"),
        lambda value: formatting.date(value, "UTC"),
    ],
)
def test_a_missing_value_is_never_a_zero(form) -> None:  # type: ignore[no-untyped-def]
    assert form(None) == formatting.MISSING == "n/a"
    assert form(0) != form(None)


@pytest.mark.parametrize(
    ("share", "whole", "in_table"),
    [
        (0.0, "0%", "0.0%"),
        (0.0004, "<1%", "<0.1%"),
        (0.0049, "<1%", "0.5%"),
        (0.5, "50%", "50.0%"),
        (0.9951, ">99%", "99.5%"),
        (0.9996, ">99%", ">99.9%"),
        (1.0, "100%", "100.0%"),
    ],
)
def test_only_none_is_zero_and_only_all_is_a_hundred(share: float, whole: str, in_table: str) -> None:
    assert formatting.percent(share) == whole
    assert formatting.percent_in_table(share) == in_table


def test_a_time_is_shown_in_the_zone_that_is_asked_for() -> None:
    assert formatting.timestamp(0, UTC, name_zone=True) == "1970-01-01 00:00:00 UTC"
    assert formatting.timestamp(0, ZoneInfo("Asia/Tokyo")) == "1970-01-01 09:00:00"
    assert formatting.date(86_399, "Asia/Tokyo") == "1970-01-02"


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0, "0 bytes"),
        (1 << 10, "1 KiB"),
        (100 << 20, "100 MiB"),
        (1100 << 20, "1,100 MiB"),
        (3 << 40, "3 TiB"),
    ],
)
def test_byte_sizes_use_the_unit_that_keeps_them_short(amount: int, text: str) -> None:
    assert formatting.byte_size(amount) == text
