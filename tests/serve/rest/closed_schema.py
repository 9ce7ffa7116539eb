"""The schemas of answers without room for fields that they do not name."""

from __future__ import annotations

from typing import Any


def closed(schema: Any) -> Any:
    """Forbid further fields in every object that names its fields."""
    if isinstance(schema, dict):
        inner = {name: closed(one) for name, one in schema.items()}
        is_object = schema.get("type") == "object" and "properties" in schema
        return {"additionalProperties": False, **inner} if is_object else inner
    return [closed(one) for one in schema] if isinstance(schema, list) else schema
