"""The JSON Schemas of an assessment and of a retry verdict, derived from their dataclasses.

`tools/assessment_schema.py` writes them.
"""

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
from forewarn.assess.retry.verdict import RETRY_SCHEMA_VERSION, RetryVerdict
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


_UNITS = (
    "Evidence is a code with values; text beside it is for people and may change. Durations are seconds, "
    "memory bytes, probabilities and shares between 0 and 1."
)


def schema() -> Schema:
    """Build the schema of what `Assessment.to_json` returns. Commands may add fields of their own."""
    about = f"Forewarn's assessment of one job. {_UNITS}"
    return _schema(Assessment, "Forewarn assessment", about, SCHEMA_VERSION)


def retry_schema() -> Schema:
    """Build the schema of what `RetryVerdict.to_json` returns."""
    about = f"Whether and how to submit an ended job again. {_UNITS}"
    return _schema(RetryVerdict, "Forewarn retry verdict", about, RETRY_SCHEMA_VERSION)


def _schema(part_type: type, title: str, description: str, version: int) -> Schema:
    parts: dict[str, Schema] = {}
    whole = part_schema(part_type, parts)
    whole["properties"] = {"schema_version": {"const": version}, **whole["properties"]}
    whole["required"] = ["schema_version", *whole["required"]]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        "description": description,
        **whole,
        "$defs": dict(sorted(parts.items())),
    }


def part_schema(part_type: type, parts: dict[str, Schema]) -> Schema:
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
        parts[name] = part_schema(hint, parts)
    return {"$ref": f"#/$defs/{name}"}


def written(schema_of: Schema | None = None) -> str:
    """Return the text of a schema file, by default that of an assessment."""
    return json.dumps(schema() if schema_of is None else schema_of, indent=2) + "\n"
