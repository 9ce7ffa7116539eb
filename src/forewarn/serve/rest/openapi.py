"""The OpenAPI document: FastAPI's, with the schemas of answers that are rendered without pydantic."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from forewarn.serve.rest.auth.current import SECURITY, SECURITY_SCHEMES
from forewarn.serve.rest.schemas import all_schemas

# What needs no proof of who is calling.
OPEN = (
    ("/healthz", "get"),
    ("/readyz", "get"),
    ("/auth/login", "get"),
    ("/auth/callback", "get"),
    ("/auth/session", "post"),
)

_DESCRIPTION = """Tells, before an HPC job wastes its nodes, whether it will fail, why, and what to change.

Times are Unix seconds, durations seconds, memory bytes, probabilities and shares from 0 to 1; what is not
known is null. Errors are problem+json (RFC 9457): `code` for programs, `detail` for people, `errors` with the
path of each wrong field.
"""


def document(app: FastAPI) -> dict[str, Any]:
    """Build the document of an application."""
    schema = get_openapi(title=app.title, version=app.version, description=_DESCRIPTION, routes=app.routes)
    components = schema.setdefault("components", {}).setdefault("schemas", {})
    components |= all_schemas()
    for path in schema["paths"].values():
        for operation in path.values():
            answers = operation.get("responses", {})
            for parameter in operation.get("parameters", ()):
                parameter["schema"] = _never_null(parameter["schema"])
            answers.get("422", {}).get("content", {}).pop("application/json", None)  # FastAPI's own form
    schema["components"]["securitySchemes"] = SECURITY_SCHEMES
    # Without a configured method everyone on this machine is trusted: then proofs are optional.
    schema["security"] = SECURITY if app.state.service.access.methods else [*SECURITY, {}]
    for name, method in OPEN:
        schema["paths"][name][method]["security"] = []
    components.pop("HTTPValidationError", None)
    components.pop("ValidationError", None)
    return schema


def _never_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Describe a parameter that may be left out: a query cannot say null.

    >>> _never_null({"anyOf": [{"type": "string"}, {"type": "null"}], "title": "After"})
    {'type': 'string', 'title': 'After'}
    """
    forms = [one for one in schema.get("anyOf", ()) if one != {"type": "null"}]
    rest = {name: value for name, value in schema.items() if name != "anyOf"}
    return forms[0] | rest if len(forms) == 1 else schema
