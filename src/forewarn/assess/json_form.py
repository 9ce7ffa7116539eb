"""Conversion of an assessment to JSON and back: dataclasses field by field, with English beside the codes.

Where a field's own name holds the English, the codes have another name (`metadata["json"]`). The English is
never read back. `docs/assessment.schema.json` describes the form (`json_schema.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from forewarn.assess.assessment import SCHEMA_VERSION, Assessment
from forewarn.assess.codes import code_of
from forewarn.assess.wording.fields import english
from forewarn.assess.wording.reader import YOU, Reader
from forewarn.evidence import Code

Part = TypeVar("Part")


def to_json(assessment: Assessment, reader: Reader | None = None) -> dict[str, Any]:
    """Convert an assessment to JSON, with the English for a reader."""
    return {"schema_version": SCHEMA_VERSION, **part_to_json(assessment, reader or YOU)}


def brief_form(part: Any) -> Any:
    """Convert one part to its short form: codes without English, without what is empty.

    The parts within it stay as they are: this is the `default` of a JSON writer, which asks for each in turn.
    `from_json` reads the result back. It is twenty times as quick, for programs that ask about many jobs.
    """
    part_type: Any = type(part)
    write = _writer_of(part_type)
    if write is not None:
        return write(part)
    return dict(part) if isinstance(part, Mapping) else str(part)


@cache
def _writer_of(part_type: Any) -> Callable[[Any], dict[str, Any]] | None:
    """Compile the function that `brief_form` calls for parts of a type; None: it is no dataclass.

    Compiled as `dataclasses` compiles its own methods: one line for each field takes half the time of a loop.
    """
    if not is_dataclass(part_type):
        return None
    version = f'"schema_version": {SCHEMA_VERSION}' if part_type is Assessment else ""
    lines = [
        f"    if (v := part.{field.name}) is not None and v is not EMPTY:\n"
        f"        form[{json_name(field)!r}] = v\n"
        for field in fields(part_type)
    ]
    names: dict[str, Any] = {"EMPTY": ()}  # there is one empty tuple only
    exec(f"def write(part):\n    form = {{{version}}}\n{''.join(lines)}    return form\n", names)
    return cast("Callable[[Any], dict[str, Any]]", names["write"])


def part_to_json(part: Any, reader: Reader = YOU) -> dict[str, Any]:
    """Convert one part and everything in it."""
    values = {json_name(field): _value(getattr(part, field.name), reader) for field in fields(part)}
    return values | english(part, reader)


def json_name(field: Field[Any]) -> str:
    """Return the name of a field in JSON."""
    return str(field.metadata.get("json", field.name))


def _value(value: Any, reader: Reader) -> Any:
    if is_dataclass(value):
        return part_to_json(value, reader)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {name: _value(one, reader) for name, one in value.items()}
    if isinstance(value, tuple | list):
        return [_value(one, reader) for one in value]
    return value


def from_json(part_type: type[Part], value: Mapping[str, Any]) -> Part:
    """Read an assessment. Raise `ValueError` for another schema version, and for anything else."""
    version = value.get("schema_version") if isinstance(value, Mapping) else None
    if version != SCHEMA_VERSION:
        raise ValueError(
            f"the assessment has schema version {version!r}, and this version of Forewarn reads "
            f"{SCHEMA_VERSION}: "
            "read it with the version that wrote it, or assess the job again"
        )
    try:
        return part_from_json(part_type, value)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not an assessment: {error!r}") from error


def part_from_json(part_type: type[Part], value: Mapping[str, Any]) -> Part:
    """Read one part and everything in it. A field that an older version did not write has its default."""
    dataclass_type: Any = part_type  # mypy has no name for "any dataclass"
    hints, found = _hints(dataclass_type), dict[str, Any]()
    for field in fields(dataclass_type):
        if (name := json_name(field)) in value:
            found[field.name] = _read(hints[field.name], value[name])
        elif field.default is MISSING and NoneType in get_args(hints[field.name]):
            found[field.name] = None  # the brief form leaves out what is None, and what is empty
        elif field.default is MISSING and get_origin(hints[field.name]) is tuple:
            found[field.name] = ()
    return part_type(**found)


@cache
def _hints(part_type: Any) -> dict[str, Any]:
    return get_type_hints(part_type)


def _read(hint: Any, value: Any) -> Any:
    """Convert a JSON value to the type of its field."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        if value is None:
            return None
        types = [one for one in inner if one is not NoneType]
        return _read(types[0], value) if len(types) == 1 else _code(tuple(types), value)
    if origin is tuple:
        return tuple(_read(inner[0], one) for one in value)
    if origin is not None and issubclass(origin, Mapping):
        return {name: tuple(one) if isinstance(one, list) else one for name, one in value.items()}
    if isinstance(hint, type):
        if issubclass(hint, Code):
            return _code((hint,), value)
        if issubclass(hint, Enum):
            return hint(value)
        if is_dataclass(hint):
            return part_from_json(hint, value)
    return value


def _code(code_types: tuple[type, ...], value: str) -> Code:
    code = code_of(value)
    if not isinstance(code, code_types):
        expected = " or ".join(one.__name__ for one in code_types)
        raise ValueError(f"code {value!r} belongs to {type(code).__name__}, but this field holds {expected}")
    return code
