"""What surrounds every request: its id, limits of body and time, security headers, the count of requests.

Plain ASGI: Starlette's own base class for middleware costs a third of the rate of a small route.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from time import perf_counter

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from forewarn.serve.rest.problems import HttpProblem, problem_of

log = logging.getLogger(__name__)
WITHOUT_TIME_LIMIT = frozenset({"/v1/events"})  # a stream has no end by itself
# Bodies of other sizes than `serve.body_limit`: what a stranger may send, and 10,000 whole records.
BODY_LIMITS = {"/auth/session": 32 << 10, "/v1/assess/batch": 32 << 20}
# After a time-out of these nobody knows whether Slurm acted: the caller must look before it asks again.
_ACTING = re.compile(r"/v1/jobs(/[^/]+/(cancel|resubmit))?")
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
)
_HEADER_NAMES = frozenset(name for name, _ in _HEADERS)
_ids = Random()  # seeded by the system; an id of a request is no secret, for which the kernel would be asked
# Called when a request is answered: route template, method, status, seconds.
OnAnswer = Callable[[str, str, int, float], None]


class BodyTooLargeError(HTTPException):
    """A request body beyond the limit. FastAPI lets this kind of error through while it reads a body."""

    def __init__(self, limit: int, *, is_setting: bool) -> None:
        detail = f"the body is larger than {limit} bytes" + (" (serve.body_limit)" if is_setting else "")
        super().__init__(413, detail, headers={"Connection": "close"})


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameSettings:
    """The limits of a request, and who counts it."""

    body_limit: int  # bytes
    timeout: float  # seconds
    on_begin: Callable[[], None] = lambda: None
    on_answer: OnAnswer = lambda *_: None


class RequestFrame:
    """The frame around every request."""

    def __init__(self, app: ASGIApp, *, settings: FrameSettings) -> None:
        self._app = app
        self._body_limit, self._timeout = settings.body_limit, settings.timeout
        self._on_begin, self._on_answer = settings.on_begin, settings.on_answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = f"{_ids.getrandbits(64):016x}"
        scope.setdefault("state", {})["request_id"] = request_id
        begun, status, size = perf_counter(), 0, 0
        limit = BODY_LIMITS.get(scope["path"], self._body_limit)
        watch: asyncio.Timeout | None = None
        self._on_begin()

        async def limited() -> Message:
            nonlocal size
            message = await receive()
            if message["type"] == "http.request":
                size += len(message.get("body", b""))
                if size > limit:
                    raise BodyTooLargeError(limit, is_setting=limit == self._body_limit)
            return message

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                present = _HEADER_NAMES.intersection([name for name, _ in message["headers"]])
                message["headers"] = [
                    *message["headers"],
                    (b"x-request-id", request_id.encode()),
                    *([one for one in _HEADERS if one[0] not in present] if present else _HEADERS),
                ]
            await send(message)

        try:
            if _announced_size(scope) > limit:
                raise BodyTooLargeError(limit, is_setting=limit == self._body_limit)
            async with asyncio.timeout(self._seconds(scope)) as watch:
                await self._app(scope, limited, answer)
        except BodyTooLargeError as error:  # announced, so that nothing of it was read
            problem = HttpProblem(status=413, code="too_large", detail=error.detail, headers=error.headers)
            await self._refuse(problem, request_id, scope, receive, answer, begun=status)
        except asyncio.CancelledError:  # the time for requests in flight is over, and the service stops
            problem = HttpProblem(status=503, code="stopping", detail="the service stops: ask again")
            await self._refuse(problem, request_id, scope, receive, answer, begun=status)
        except Exception as error:
            problem = self._too_slow(scope) if watch and watch.expired() else problem_of(error)
            if problem.status == 500:
                log.error("request %s failed", request_id)
            await self._refuse(problem, request_id, scope, receive, answer, begun=status)
        finally:
            self._on_answer(_route_of(scope), scope["method"], status, perf_counter() - begun)

    def _seconds(self, scope: Scope) -> float | None:
        return None if scope["path"] in WITHOUT_TIME_LIMIT else self._timeout

    def _too_slow(self, scope: Scope) -> HttpProblem:
        detail = f"no answer within {self._timeout:.0f} seconds (serve.request_timeout)"
        if scope["method"] == "POST" and _ACTING.fullmatch(scope["path"]):
            more = "; Slurm may have done it all the same: look at your jobs before you ask again"
            return HttpProblem(status=503, code="uncertain", detail=detail + more)
        return HttpProblem(status=503, code="too_slow", detail=detail, headers={"Retry-After": "5"})

    async def _refuse(
        self, problem: HttpProblem, request_id: str, scope: Scope, receive: Receive, send: Send, *, begun: int
    ) -> None:
        if not begun:  # once a response has begun, it can only be cut off
            await problem.response(request_id)(scope, receive, send)


def _route_of(scope: Scope) -> str:
    """Return the template of the route, with the prefix of the router that it is included by."""
    included = scope.get("fastapi", {}).get("effective_route_context")
    return getattr(included or scope.get("route"), "path", "none")


def _announced_size(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length":
            return int(value) if value.isdigit() else 0
    return 0
