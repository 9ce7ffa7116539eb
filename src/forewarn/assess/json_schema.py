"""The JSON Schema of an assessment, derived from its dataclasses; `tools/assessment_schema.py` writes it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from forewarn.assess.assessment import SCHEMA_VERSION, Assessment
from forewarn.assess.codes import all_codes
from forewarn.assess.json_form import json_name
from forewarn.assess.wording.fields import OPTIONAL_TEXT, TEXT, TEXTS
from forewarn.evidence import Code, Values

Schema = dict[str, Any]
_SIMPLE: Mapping[type, Schema] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    NoneType: {"type": "null"},
}
_SCALAR: Schema = {"type": ["string", "number", "boolean", "null"]}
_TEXT: Schema = {"type": "string"}


def schema() -> Schema:
    """Build the schema of what `Assessment.to_json` returns. Commands may add fields of their own."""
    parts: dict[str, Schema] = {}
    whole = _part(Assessment, parts)
    whole["properties"] = {"schema_version": {"const": SCHEMA_VERSION}, **whole["properties"]}
    whole["required"] = ["schema_version", *whole["required"]]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Forewarn assessment",
        "description": (
            "Forewarn's assessment of one job. Evidence is a code with values; text beside it is for people "
            "and may change. Durations are seconds, memory bytes, probabilities and shares between 0 and 1."
        ),
        **whole,
        "$defs": dict(sorted(parts.items())),
    }


def _part(part_type: type, parts: dict[str, Schema]) -> Schema:
    """Describe a dataclass as an object; the dataclasses that it contains are added to `parts`."""
    hints = get_type_hints(part_type)
    properties = {json_name(field): _of(hints[field.name], parts) for field in fields(part_type)}
    for table, text in (
        (TEXT, _TEXT),
        (OPTIONAL_TEXT, {"anyOf": [_TEXT, {"type": "null"}]}),
        (TEXTS, {"type": "array", "items": _TEXT}),
    ):
        properties |= dict.fromkeys(table.get(part_type, {}), text)
    return {"type": "object", "properties": properties, "required": list(properties)}


def _of(hint: Any, parts: dict[str, Schema]) -> Schema:
    """Describe the type of a field."""
    if hint == Values:
        array = {"type": "array", "items": _SCALAR}
        return {"type": "object", "additionalProperties": {"anyOf": [_SCALAR, array]}}
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        if all(isinstance(one, type) and issubclass(one, Code) for one in inner):
            return {"enum": [str(code) for one in inner for code in one]}
        return {"anyOf": [_of(one, parts) for one in inner]}
    if origin is tuple:
        return {"type": "array", "items": _of(inner[0], parts)}
    if origin is not None and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _of(inner[1], parts)}
    if hint is Code:
        return {"enum": sorted(all_codes())}
    if issubclass(hint, Enum):
        return {"enum": [one.value for one in hint]}
    if hint in _SIMPLE:
        return _SIMPLE[hint]
    name: str = hint.__name__
    if name not in parts:
        parts[name] = _part(hint, parts)
    return {"$ref": f"#/$defs/{name}"}


def written() -> str:
    """Return the text of the schema file."""
    return json.dumps(schema(), indent=2) + "\n"
