"""A job as JSON: what a program posts to be assessed, and what events of jobs contain.

The names and units are those of `Job`; a field without a value is left out. `RULES` is the one table of what
each field may hold: reading checks every field by it, and the JSON Schema is derived from it.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import polars as pl

from forewarn.errors import BadField, BadFieldsError
from forewarn.job.columns import JOB_SCHEMA
from forewarn.job.outcomes import Outcome
from forewarn.job.record import Job, job_of
from forewarn.job.units import MOST_BYTES, MOST_COUNT, check_nodes, parse_tres

JOB_VERSION = 1  # of this form; a field that changes its meaning or goes away is a new version
VERSION_FIELD = "schema_version"
REQUIRED = ("cluster", "job_id", "submit")
LATEST = 253_402_300_799  # the last second of the year 9999
CLOCK_SKEW = 300  # seconds by which a caller's clock may be ahead
_SHORT = 256  # characters
_SHOWN = 60  # characters of a wrong name or value in a message


@dataclass(frozen=True, slots=True)
class FieldRule:
    """What a field may hold. `most` is its greatest value, of a text its greatest length."""

    json_type: str  # string, integer or number
    most: int
    pattern: str | None = None
    choices: tuple[str, ...] = ()
    parse: Callable[[str], object] | None = None  # raises ValueError where a text is not in its form

    def schema(self) -> dict[str, Any]:
        """Describe the field in JSON Schema."""
        bounds = (
            {"maxLength": self.most} if self.json_type == "string" else {"minimum": 0, "maximum": self.most}
        )
        form: dict[str, Any] = {"type": self.json_type, **bounds}
        if self.pattern is not None:
            form["pattern"] = f"^{self.pattern}$"
        return {"enum": list(self.choices)} if self.choices else form


def _rule(name: str, dtype: pl.DataType) -> FieldRule:
    if dtype == pl.String:
        return _TEXTS.get(name, FieldRule("string", 1024))
    if name in _MOMENTS:
        return FieldRule("integer", LATEST)
    most = MOST_BYTES if name in _BYTES else MOST_COUNT
    return FieldRule("number" if dtype == pl.Float64 else "integer", most)


_MOMENTS = frozenset({"submit", "eligible", "start", "end"})
_BYTES = frozenset({"memory_asked", "memory_given", "max_memory", "io_read", "io_written"})
_LONG = 65_536  # a line that sbatch was called with, or the nodes of a whole cluster
_TEXTS: Mapping[str, FieldRule] = {
    "cluster": FieldRule("string", 64, r"[A-Za-z0-9_.-]+"),
    "job_id": FieldRule("string", 1024, r"[0-9A-Za-z_+.,%:\[\]-]+"),
    "memory_per": FieldRule("string", 4, choices=("node", "cpu", "gpu")),
    "outcome": FieldRule("string", 16, choices=tuple(Outcome)),
    "state": FieldRule("string", 64, "[A-Z_]+"),
    "work_dir": FieldRule("string", 4096),
    "submit_line": FieldRule("string", _LONG),
    "script_modules": FieldRule("string", _LONG),
    "dependency": FieldRule("string", _LONG),
    "array_tasks": FieldRule("string", _LONG),
    "nodes": FieldRule("string", _LONG, parse=check_nodes),
    "tres_asked": FieldRule("string", 4096, parse=parse_tres),
    "tres_given": FieldRule("string", 4096, parse=parse_tres),
}
RULES: Mapping[str, FieldRule] = MappingProxyType(
    {name: _rule(name, dtype) for name, dtype in JOB_SCHEMA.items()}
)
_NAMES = tuple(field.name for field in dataclasses.fields(Job))
_Check = Callable[[Any], str | None]  # returns why a value is wrong


def job_to_json(job: Job) -> dict[str, Any]:
    """Convert a job to JSON; fields without a value are left out.

    >>> job_to_json(Job(cluster="c", job_id="7", submit=5, user="ann"))
    {'schema_version': 1, 'cluster': 'c', 'job_id': '7', 'submit': 5, 'user': 'ann'}
    """
    form: dict[str, Any] = {VERSION_FIELD: JOB_VERSION}
    for name in _NAMES:
        if (value := getattr(job, name)) is not None:
            form[name] = value
    return form


def job_from_json(value: object, *, at: str = "", defaults: Mapping[str, Any] | None = None) -> Job:
    """Read a job, strictly: `BadFieldsError` names every field that is wrong, missing or unknown.

    Parameters
    ----------
    at
        Where the job stands in its document, as a JSON pointer: ``/jobs/3``.
    defaults
        Fields that the JSON may leave out, such as the cluster of a service with only one. They are trusted.

    >>> job_from_json({"cluster": "c", "job_id": "7", "submit": 5}).job_id
    '7'
    >>> job_from_json({"cluster": "c", "job_id": 7, "tme_limit": 5})
    Traceback (most recent call last):
    forewarn.errors.BadFieldsError: the job has 3 wrong fields:
      /job_id: expected a text, got the number 7
      /tme_limit: there is no such field
      /submit: this field is required
    """
    if not isinstance(value, Mapping):
        raise BadFieldsError("the job", [BadField(at, f"expected an object, got {_shown(value)}")])
    found: dict[str, Any] = dict(defaults) if defaults else {}
    wrong: list[BadField] = []
    for name, one in value.items():
        if one is None:
            continue  # missing
        check = _CHECKS.get(name)
        reason = "there is no such field" if check is None else check(one)
        if reason is None:
            found[name] = one
        else:
            wrong.append(BadField(f"{at}/{_pointer(name)}", reason))
    named = {field.path for field in wrong}
    for name in REQUIRED:
        if name not in found and f"{at}/{name}" not in named:
            wrong.append(BadField(f"{at}/{name}", "this field is required"))
    if wrong:
        raise BadFieldsError("the job", wrong)
    found.pop(VERSION_FIELD, None)
    return job_of(found)


def wrong_moments(job: Job, now: int) -> Iterator[tuple[str, str]]:
    """Yield the times of a job that contradict each other or the clock, each with the reason.

    >>> list(wrong_moments(Job(cluster="c", job_id="7", submit=9_000, start=5), now=100))
    [('submit', '8900 seconds in the future: do the clocks differ?'), ('start', 'before submit')]
    """
    if job.submit > now + CLOCK_SKEW:
        yield "submit", f"{job.submit - now} seconds in the future: do the clocks differ?"
    if job.start is not None and job.start < job.submit:
        yield "start", "before submit"
    if job.end is not None and job.end < (job.start if job.start is not None else job.submit):
        yield "end", "before start" if job.start is not None else "before submit"


def job_schema() -> dict[str, Any]:
    """Build the JSON Schema of a job. An empty field may be left out or null."""
    optional = {
        name: {"anyOf": [rule.schema(), {"type": "null"}]} if name not in REQUIRED else rule.schema()
        for name, rule in RULES.items()
    }
    return {
        "type": "object",
        "properties": {VERSION_FIELD: {"const": JOB_VERSION}, **optional},
        "required": list(REQUIRED),
        "additionalProperties": False,
    }


# --- checks of one value -----------------------------------------------------------------------------


def _version_check(value: Any) -> str | None:
    if type(value) is int and value == JOB_VERSION:
        return None
    return f"expected version {JOB_VERSION} of this form, got {_shown(value)}"


def _check_of(rule: FieldRule) -> _Check:
    if rule.choices:
        return _choice_check(rule)
    if rule.json_type == "string":
        return _text_check(rule)
    return _integer_check(rule.most) if rule.json_type == "integer" else _number_check(rule.most)


def _integer_check(most: int) -> _Check:
    def check(value: Any) -> str | None:
        if type(value) is not int:  # a bool is an int to isinstance
            return f"expected a whole number, got {_shown(value)}"
        return None if 0 <= value <= most else f"expected 0 to {most}, got {_shown(value)}"

    return check


def _number_check(most: int) -> _Check:
    def check(value: Any) -> str | None:
        if type(value) not in (int, float):
            return f"expected a number, got {_shown(value)}"
        is_fine = 0 <= value <= most and math.isfinite(value)
        return None if is_fine else f"expected 0 to {most}, got {_shown(value)}"

    return check


def _choice_check(rule: FieldRule) -> _Check:
    choices = frozenset(rule.choices)

    def check(value: Any) -> str | None:
        if type(value) is str and value in choices:
            return None
        return f"expected one of {', '.join(rule.choices)}; got {_shown(value)}"

    return check


def _text_check(rule: FieldRule) -> _Check:
    most, parse = rule.most, rule.parse

    @lru_cache(1024)
    def parse_error(value: str) -> str | None:
        assert parse is not None
        try:
            parse(value)
        except ValueError as error:
            return _printable(str(error), 200)
        return None

    pattern = None if rule.pattern is None else re.compile(rule.pattern)

    def check(value: Any) -> str | None:
        if type(value) is not str:
            return f"expected a text, got {_shown(value)}"
        if len(value) > most:
            return f"expected at most {most} characters, got {len(value)}"
        if not value.isascii() and (reason := _encoding_error(value)):
            return reason
        if "\0" in value:
            return "a text must not contain a NUL character"
        if pattern is not None and pattern.fullmatch(value) is None:
            return f"expected the form {rule.pattern}, got {_shown(value)}"
        if parse is not None:
            # The same few requests come again and again; a cache must not hold many long texts.
            return parse_error(value) if len(value) <= _SHORT else parse_error.__wrapped__(value)
        return None

    return check


def _encoding_error(value: str) -> str | None:
    """Find half a surrogate pair: JSON can write one, and no file or database can store it."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return "the text is not valid Unicode: it contains half of a surrogate pair"
    return None


_CHECKS: Mapping[str, _Check] = {name: _check_of(rule) for name, rule in RULES.items()} | {
    VERSION_FIELD: _version_check
}


# --- messages ----------------------------------------------------------------------------------------


def _shown(value: object) -> str:
    """Describe a wrong value by its JSON type, without letting it flood or steer the message."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'the text "{_printable(value)}"'
    if isinstance(value, int | float):
        is_huge = isinstance(value, int) and value.bit_length() > 128  # writing it out takes long
        return "a number of many digits" if is_huge else f"the number {value}"
    if isinstance(value, list):
        return "a list"
    return "null" if value is None else "an object"


def _printable(text: str, most: int = _SHOWN) -> str:
    cut = "".join(char if char.isprintable() else "?" for char in text[:most])
    return cut + ("…" if len(text) > most else "")


def _pointer(name: object) -> str:
    """Write a name as a part of a JSON pointer (RFC 6901)."""
    return _printable(str(name)).replace("~", "~0").replace("/", "~1")
