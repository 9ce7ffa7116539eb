"""Bodies are read by orjson as Python's own decoder reads them, and what neither reads is explained."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.errors import BadFieldsError
from forewarn.serve.rest.json_body import parse_json

NUMBERS = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
)


def reason(raw: bytes) -> str:
    with pytest.raises(BadFieldsError) as caught:
        parse_json(raw)
    (field,) = caught.value.fields
    return field.reason


@given(VALUES, st.booleans(), st.sampled_from([None, 2]))
def test_what_is_written_is_read_with_its_types(value: Any, ascii_only: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    found = parse_json(text.encode())
    assert repr(found) == repr(json.loads(text)) == repr(value)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"", "the body is empty"),
        (b"{", "not JSON: Expecting property name enclosed in double quotes at line 1, column 2"),
        (b"[1,]", "not JSON: Expecting value at line 1, column 4"),
        (b"01", "not JSON: Extra data at line 1, column 2"),
        (b'{"a": NaN}', "not JSON: NaN is not a number of JSON"),
        (b'{"a": -Infinity}', "not JSON: -Infinity is not a number of JSON"),
        (b'"\xff"', "not UTF-8 at byte 1"),
        (b'["\\ud83d"]', "a text contains half of a surrogate pair"),
        (b"[" * 100_000, "not JSON: nested too deeply"),
    ],
)
def test_what_is_not_json_is_explained(raw: bytes, expected: str) -> None:
    assert reason(raw) == expected


def test_numbers_beyond_64_bits_stay_numbers() -> None:
    assert parse_json(b"[18446744073709551615, -9223372036854775808]") == [2**64 - 1, -(2**63)]
    assert parse_json(b"[18446744073709551616]") == [2.0**64]
    assert parse_json(b"[1e400]") == [math.inf]  # which no field may hold


def test_of_equal_names_the_last_counts() -> None:
    assert parse_json(b'{"a": 1, "a": 2}') == {"a": 2}
