"""Readers of one value of a record, whatever shape the version of the API gives it.

A reader takes a record and returns a value, or None where it is not set; it raises `ValueError` where the
value cannot be right. The functions here build readers from the paths at which the value may be, best first:
``number("time.limit", "time_limit")``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from forewarn.job.units import MOST_BYTES, UNLIMITED

RawRecord = dict[str, Any]
FieldReader = Callable[[RawRecord], Any]
# Field to its reader; several fields may share one reader, which returns as many values.
Fields = Mapping[str | tuple[str, ...], FieldReader]

MB = 1 << 20

# Slurm's NO_VAL and INFINITE, in 32 and 64 bits, and as the signed numbers that some versions print.
_NOT_SET = frozenset({0xFFFFFFFE, 0xFFFFFFFFFFFFFFFE, -2})
_INFINITE = frozenset({0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF, -1})
_ABSENT_TEXT = frozenset({"", "None", "None assigned", "N/A", "(null)"})


def at(path: str) -> FieldReader:
    """Build a reader of the value at a dotted path, or None.

    >>> at("time.limit")({"time": {"limit": 5}}), at("time.limit")({"time": None})
    (5, None)
    """
    first, *rest = path.split(".")

    def read(record: RawRecord) -> Any:
        value = record.get(first)
        for key in rest:
            if type(value) is not dict:
                return None
            value = value.get(key)
        return value

    return read


def as_number(value: Any) -> int | float | None:
    """Read a number, plain or wrapped; `UNLIMITED` where it is infinite, None where it is not set.

    >>> as_number(5), as_number({"set": True, "infinite": False, "number": 5}), as_number(-2)
    (5, 5, None)
    >>> as_number({"set": False, "infinite": True, "number": 0}) == UNLIMITED
    True
    """
    if type(value) is dict:
        if value.get("infinite"):
            return UNLIMITED
        value = value.get("number") if value.get("set", True) else None
    if value is None or value == "":
        return None
    if isinstance(value, str):
        value = int(value)
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ValueError(f"not a number: {value!r:.80}")
    if value in _NOT_SET:
        return None
    return UNLIMITED if value in _INFINITE else value


def bounded(value: int | float) -> int:
    """Convert to a whole number that fits a column of 64 bits, also when some of them are added."""
    whole = int(value)
    if not -MOST_BYTES <= whole <= MOST_BYTES:
        raise ValueError(f"a number that is too large: {value!r:.80}")
    return whole


def number(*paths: str, scale: int = 1, none: int | None = None) -> FieldReader:
    """Build a reader of a whole number times `scale`; infinite, negative and `none` are None."""
    places = [at(path) for path in paths]

    def read(record: RawRecord) -> int | None:
        for place in places:
            found = as_number(place(record))
            if found is not None:
                whole = int(found)
                return None if whole in (UNLIMITED, none) or whole < 0 else bounded(whole * scale)
        return None

    return read


def moment(*paths: str) -> FieldReader:
    """Build a reader of a time in Unix seconds; Slurm's 0 is none."""
    return number(*paths, none=0)


def minutes(*paths: str) -> FieldReader:
    """Build a reader of a limit in minutes, returned in seconds; infinite is `UNLIMITED`."""
    places = [at(path) for path in paths]

    def read(record: RawRecord) -> int | None:
        for place in places:
            found = as_number(place(record))
            if found is not None:
                return UNLIMITED if found == UNLIMITED else bounded(int(found) * 60)
        return None

    return read


def text(*paths: str) -> FieldReader:
    """Build a reader of the first text that is present; a number in place of a text is ignored."""
    places = [at(path) for path in paths]

    def read(record: RawRecord) -> str | None:
        for place in places:
            value = place(record)
            if type(value) is str and value not in _ABSENT_TEXT:
                return value
        return None

    return read


def named(path: str, number_path: str) -> FieldReader:
    """Build a reader of a name, or of its number as text where it is empty (v0.0.36 looks up no users)."""
    name, numeric = at(path), at(number_path)

    def read(record: RawRecord) -> str | None:
        value = name(record)
        if type(value) is str and value:
            return value
        found = as_number(numeric(record))
        return None if found is None else str(int(found))

    return read


def words(*paths: str, joined: str = ",") -> FieldReader:
    """Build a reader of several words, a list or a text, joined into one text."""
    places = [at(path) for path in paths]

    def read(record: RawRecord) -> str | None:
        for place in places:
            value = place(record)
            joined_text = joined.join(value) if isinstance(value, list) else value
            if type(joined_text) is str and joined_text:
                return joined_text
        return None

    return read
