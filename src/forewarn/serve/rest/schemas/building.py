"""Blocks that schemas are built from.

Answers are open: within a version fields are only added. What a caller sends is closed: a misspelt field is
an error.
"""

from __future__ import annotations

from typing import Any

from forewarn.assess.json_schema import part_schema

JsonSchema = dict[str, Any]
REFERENCE = "#/components/schemas/"
TEXT: JsonSchema = {"type": "string"}
WHOLE: JsonSchema = {"type": "integer"}
NUMBER: JsonSchema = {"type": "number"}
FLAG: JsonSchema = {"type": "boolean"}
SHARE: JsonSchema = {"type": "number", "minimum": 0, "maximum": 1}
ANYTHING: JsonSchema = {}


def answer(properties: dict[str, JsonSchema], description: str | None = None) -> JsonSchema:
    """Describe an object of an answer: each of these fields is there, more may follow."""
    about = {"description": description} if description else {}
    return {"type": "object", **about, "properties": properties, "required": list(properties)}


def nullable(schema: JsonSchema) -> JsonSchema:
    """Let a value be null, too."""
    return {"anyOf": [schema, {"type": "null"}]}


def array(items: JsonSchema) -> JsonSchema:
    """Describe a list."""
    return {"type": "array", "items": items}


def by_name(values: JsonSchema) -> JsonSchema:
    """Describe an object whose names are not known beforehand."""
    return {"type": "object", "additionalProperties": values}


def named(name: str) -> JsonSchema:
    """Refer to a schema of the document."""
    return {"$ref": f"{REFERENCE}{name}"}


def of_dataclass(name: str, part_type: type) -> dict[str, JsonSchema]:
    """Describe a dataclass and those in it, by their names; `name` is that of the dataclass itself."""
    parts: dict[str, JsonSchema] = {}
    whole = part_schema(part_type, parts)
    return {key: moved(part) for key, part in {name: whole, **parts}.items()}


def moved(schema: Any) -> Any:
    """Let references point into the OpenAPI document."""
    if isinstance(schema, dict):
        return {
            name: value.replace("#/$defs/", REFERENCE) if name == "$ref" else moved(value)
            for name, value in schema.items()
        }
    return [moved(one) for one in schema] if isinstance(schema, list) else schema
