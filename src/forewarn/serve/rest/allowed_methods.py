"""The methods of a path, for the header `Allow`: Starlette names those of the first matching route only."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.routing import compile_path


def allowed_methods(app: FastAPI, path: str) -> str:
    """Return the methods that the OpenAPI document has for a path, as the header lists them."""
    for template, operations in app.openapi()["paths"].items():
        if compile_path(template)[0].match(path):
            return ", ".join(sorted(method.upper() for method in operations))
    return "GET"  # what the document leaves out: itself
