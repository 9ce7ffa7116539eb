"""`POST /v1/assess?detail=brief` as plain ASGI, beside FastAPI's own route.

FastAPI's layers, its search for a route and its dependencies take several times as long as all of a bare
endpoint. This request is the one that programs send by the thousand. It is answered by the same function; any
other query goes to the documented route.
"""

from __future__ import annotations

from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope, Send

from forewarn.errors import ForewarnError
from forewarn.operate.service.service import Service
from forewarn.serve.rest.auth.current import current_identity
from forewarn.serve.rest.problems import problem_of, request_id_of
from forewarn.serve.rest.routes.assess import JobGatherer, assess_in_brief

_QUERY = b"detail=brief"


class QuickRoute:
    """The endpoint of one method, path and query, exactly so written."""

    def __init__(self, path: str, service: Service, gatherer: JobGatherer) -> None:
        self.path = path  # for the metrics, as the path of a route
        self._service, self._gatherer = service, gatherer

    def takes(self, scope: Scope) -> bool:
        """Check whether a request is of this route."""
        return (
            scope["type"] == "http"
            and scope["path"] == self.path
            and scope["query_string"] == _QUERY
            and scope["method"] == "POST"
            and not scope.get("root_path")
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; its application is in the scope."""
        scope["route"] = self
        request = Request(scope)
        try:
            identity = await current_identity(request)
            raw = await _read_body(receive)
            body = await assess_in_brief(raw, self._service, self._gatherer, identity)
        except (ForewarnError, ClientDisconnect) as error:
            await problem_of(error).response(request_id_of(request))(scope, receive, send)
            return
        headers = [(b"content-length", b"%d" % len(body)), (b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


async def _read_body(receive: Receive) -> bytes:
    """Read a body; Starlette's own way takes five times as long for one that arrived whole."""
    parts: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)
