"""An assessment as JSON and back: the dataclasses field by field, and beside codes the words of a reader.

Where a field's own name has the words, the codes go under another (`metadata["json"]`). Words are never read
back. `docs/assessment.schema.json` describes the form (`json_schema.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from forewarn.assess.assessment import SCHEMA_VERSION, Assessment
from forewarn.assess.codes import code_of
from forewarn.assess.wording.fields import english
from forewarn.assess.wording.reader import YOU, Reader
from forewarn.evidence import Code

Kind = TypeVar("Kind")


def to_json(made: Assessment, reader: Reader | None = None) -> dict[str, Any]:
    """The assessment for programs, with the words for a reader."""
    return {"schema_version": SCHEMA_VERSION, **part_to_json(made, reader or YOU)}


def part_to_json(part: Any, reader: Reader = YOU) -> dict[str, Any]:
    """One part, and all of its parts."""
    told = {json_name(field): _value(getattr(part, field.name), reader) for field in fields(part)}
    return told | english(part, reader)


def json_name(field: Field[Any]) -> str:
    """The name of a field in JSON."""
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


def from_json(kind: type[Kind], value: Mapping[str, Any]) -> Kind:
    """The assessment that was written so. Raises `ValueError` for another version, or what is none."""
    version = value.get("schema_version") if isinstance(value, Mapping) else None
    if version != SCHEMA_VERSION:
        raise ValueError(
            f"an assessment of schema version {version!r}; this Forewarn reads version {SCHEMA_VERSION}: "
            "read it with the Forewarn that wrote it, or assess the job again"
        )
    try:
        return part_from_json(kind, value)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not an assessment: {error!r}") from error


def part_from_json(kind: type[Kind], value: Mapping[str, Any]) -> Kind:
    """One part, and all of its parts. A field that was not there yet when it was written has its default."""
    part: Any = kind  # a dataclass, which mypy has no name for
    hints, found = _hints(part), dict[str, Any]()
    for field in fields(part):
        if (name := json_name(field)) in value:
            found[field.name] = _read(hints[field.name], value[name])
    return kind(**found)


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _read(hint: Any, value: Any) -> Any:
    """A value of JSON as a field of this type has it."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        if value is None:
            return None
        kinds = [one for one in inner if one is not NoneType]
        return _read(kinds[0], value) if len(kinds) == 1 else _of_some(kinds, value)
    if origin is tuple:
        return tuple(_read(inner[0], one) for one in value)
    if origin is not None and issubclass(origin, Mapping):
        return {name: tuple(one) if isinstance(one, list) else one for name, one in value.items()}
    if isinstance(hint, type):
        if issubclass(hint, Code):
            return _code(hint, value)
        if issubclass(hint, Enum):
            return hint(value)
        if is_dataclass(hint):
            return part_from_json(hint, value)
    return value


def _of_some(kinds: list[type], value: Any) -> Any:
    code = code_of(value)
    if not isinstance(code, tuple(kinds)):
        raise ValueError(f"{value!r} is a code of another kind of evidence")
    return code


def _code(kind: type[Code], value: str) -> Code:
    code = code_of(value)
    if not isinstance(code, kind):
        raise ValueError(f"{value!r} is a code of another kind of evidence")
    return code
