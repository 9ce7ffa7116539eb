"""How routes are documented in OpenAPI: schemas by name, answers, problems, examples.

Answers are rendered from dataclasses by their own `to_json`, so their schemas come from the same dataclasses
(`schemas/`) and not from pydantic.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from forewarn.serve.rest.problems import MEDIA_TYPE
from forewarn.serve.rest.schemas.building import JsonSchema
from forewarn.serve.rest.schemas.building import named as named  # routes take it from here

_PROBLEMS: Mapping[int, str] = {
    400: "The request makes no sense.",
    401: "Nothing valid proves who is calling.",
    403: "The caller's role does not allow it, or Slurm refuses the token.",
    404: "There is no such thing, or the caller may not see it.",
    409: "Slurm refuses it, or it contradicts the present state.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    422: "Fields of the request are wrong: `errors` names each.",
    429: "Too many requests: wait as `Retry-After` says.",
    431: "The address and the headers are too large.",
    500: "An error of Forewarn itself.",
    501: "A part is not installed.",
    503: "Slurm, the store or the models do not answer now, or too many requests wait.",
}


def answers(
    schema: JsonSchema, description: str = "The answer.", *, status: int = 200, problems: tuple[int, ...] = ()
) -> dict[int | str, dict[str, Any]]:
    """Return the `responses` of a route: its answer, and the problems that every route may have."""
    problem = {"description": "", "content": {MEDIA_TYPE: {"schema": named("Problem")}}}
    every = {400, 401, 403, 422, 429, 431, 503, *problems}
    return {
        status: {"description": description, "content": {"application/json": {"schema": schema}}},
        **{code: problem | {"description": _PROBLEMS[code]} for code in sorted(every)},
    }


def body(schema: JsonSchema, *examples: tuple[str, Any], required: bool = True) -> dict[str, Any]:
    """Return `openapi_extra` of a route that reads its body itself, with examples that run."""
    shown = {name: {"value": value} for name, value in examples}
    content = {"application/json": {"schema": schema} | ({"examples": shown} if shown else {})}
    return {"requestBody": {"required": required, "content": content}}
