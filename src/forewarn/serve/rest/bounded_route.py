"""Routes whose body pydantic reads: a body of very many parts is refused before that.

Pydantic lists every wrong field of a body, on the event loop: half a million of them take many seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request
from fastapi.routing import APIRoute
from starlette.responses import Response

from forewarn.errors import BadField, BadFieldsError
from forewarn.serve.rest.json_body import parse_json

MOST_PARTS = 20_000  # values in a body: an inspection of a script with a thousand findings has half of them


class BoundedRoute(APIRoute):
    """A route that counts the values of a JSON body before they are validated."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return FastAPI's handler, with the count before it."""
        handle = super().get_route_handler()

        async def bounded(request: Request) -> Response:
            raw = await request.body()
            # Parsed here too, for the reason and the place where it is not JSON: FastAPI has neither.
            value = parse_json(raw) if raw and _is_json(request) else None
            if _parts(value) > MOST_PARTS:
                reason = f"expected at most {MOST_PARTS} values in all"
                raise BadFieldsError("the body", [BadField("", reason)])
            return await handle(request)

        return bounded


def _is_json(request: Request) -> bool:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return media_type == "application/json" or media_type.endswith("+json")


def _parts(value: Any) -> int:
    """Count values, up to the bound."""
    number, waiting = 0, [value]
    while waiting and number <= MOST_PARTS:
        one = waiting.pop()
        inner = one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
        number += len(inner)
        waiting += [child for child in inner if isinstance(child, dict | list)]
    return number
