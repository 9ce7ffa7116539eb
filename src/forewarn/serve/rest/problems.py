"""Errors as problem+json (RFC 9457): what is wrong, where, and what to do; never a traceback.

{"type": "urn:forewarn:problem:bad_fields", "title": "…", "status": 422, "detail": "…",
 "code": "bad_fields", "errors": [{"path": "/job/time_limit", "reason": "…"}], "request_id": "…"}
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from forewarn.errors import (
    AccessError,
    BadFieldsError,
    ForewarnError,
    LearningError,
    MissingExtraError,
    RateLimitError,
    RefusedError,
    SchedulerError,
    ScriptUnknownError,
    SourceError,
    StoreError,
    TokenError,
    UnauthenticatedError,
    UnknownJobError,
    UsageError,
)
from forewarn.formatting import count
from forewarn.serve.rest.allowed_methods import allowed_methods
from forewarn.serve.rest.safe_text import one_line

log = logging.getLogger(__name__)
MEDIA_TYPE = "application/problem+json"
MOST_LISTED = 100  # wrong fields that are named
MOST_OF_DETAIL = 4000  # characters
UNKNOWN_JOB_NUMBERS = frozenset({2017})  # Slurm: invalid job id


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpProblem:
    """One problem, as a caller gets it."""

    status: int
    code: str
    detail: str
    errors: Sequence[Mapping[str, Any]] = ()
    headers: Mapping[str, str] | None = None
    more: Mapping[str, Any] | None = None

    def response(self, request_id: str | None = None) -> Response:
        """Return the response."""
        body: dict[str, Any] = {
            "type": f"urn:forewarn:problem:{self.code}",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "code": self.code,
            "detail": one_line(self.detail, MOST_OF_DETAIL),  # it may quote the caller, or a job
            **(self.more or {}),
        }
        if self.errors:
            body["errors"] = [
                {name: one_line(str(text)) for name, text in one.items()} for one in self.errors
            ]
        if request_id:
            body["request_id"] = request_id
        return Response(
            json.dumps(body, ensure_ascii=False),
            status_code=self.status,
            media_type=MEDIA_TYPE,
            headers=dict(self.headers or {}),
        )


def problem_of(error: Exception) -> HttpProblem:
    """Return the problem of an error; one that is nobody's purpose is logged, and says only that."""
    if isinstance(error, BadFieldsError):
        listed = [{"path": field.path, "reason": field.reason} for field in error.fields]
        return HttpProblem(
            status=422, code="bad_fields", detail=str(error).splitlines()[0].rstrip(":"), errors=listed
        )
    if isinstance(error, AccessError):
        return _of_access(error)
    if isinstance(error, ClientDisconnect):  # nobody reads it, but the count of requests
        detail = "the caller left before the request was complete"
        return HttpProblem(status=400, code="bad_request", detail=detail)
    if isinstance(error, RefusedError) and error.code in UNKNOWN_JOB_NUMBERS:
        return HttpProblem(status=404, code="unknown_job", detail=str(error))
    if isinstance(error, ForewarnError):
        for kind, status, code in _BY_TYPE:
            if isinstance(error, kind):
                # An option of the command line has the same name as a parameter of a request.
                detail = re.sub(r"^--(?=[a-z-]+: )", "", str(error))
                return HttpProblem(status=status, code=code, detail=detail, headers=_retry(status))
    log.exception("a request failed", exc_info=error)
    detail = "an error that is Forewarn's own; the service's log has it under this request id"
    return HttpProblem(status=500, code="internal", detail=detail)


def _of_access(error: AccessError) -> HttpProblem:
    headers: dict[str, str] = {}
    if isinstance(error, UnauthenticatedError):
        headers["WWW-Authenticate"] = 'Bearer realm="forewarn"'
    if isinstance(error, RateLimitError):
        headers["Retry-After"] = str(max(1, round(error.retry_after)))
    return HttpProblem(status=error.status, code=error.code, detail=str(error), headers=headers)


def _retry(status: int) -> dict[str, str] | None:
    return {"Retry-After": "5"} if status == 503 else None


# The first that fits.
_BY_TYPE: tuple[tuple[type[ForewarnError], int, str], ...] = (
    (UnknownJobError, 404, "unknown_job"),
    (UsageError, 400, "bad_request"),
    (ScriptUnknownError, 409, "script_unknown"),
    (RefusedError, 409, "refused_by_slurm"),
    (TokenError, 403, "slurm_token_refused"),
    (SchedulerError, 503, "slurm_away"),
    (SourceError, 422, "unreadable"),
    (StoreError, 503, "store_away"),
    (LearningError, 503, "model_away"),
    (MissingExtraError, 501, "not_installed"),
    (ForewarnError, 500, "failed"),
)


def add_handlers(app: FastAPI) -> None:
    """Let every error of a route become a problem."""

    async def known_error(request: Request, error: Exception) -> Response:
        return problem_of(error).response(request_id_of(request))

    async def http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        codes = {404: "no_such_route", 405: "method_not_allowed", 413: "too_large"}
        headers, detail = dict(error.headers or {}), str(error.detail)
        if error.status_code == 404 and detail == HTTPStatus.NOT_FOUND.phrase:
            detail = "no such route; /openapi.json lists all"
        if error.status_code == 405:
            headers["Allow"] = allowed_methods(request.app, request.scope["path"])
            detail = f"this route has no {request.method}; it has {headers['Allow']}"
        return HttpProblem(
            status=error.status_code,
            code=codes.get(error.status_code, "http_error"),
            detail=one_line(detail),
            headers=headers,
        ).response(request_id_of(request))

    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        found = error.errors()
        listed = [_listed(one) for one in found[:MOST_LISTED]]
        detail = f"the request has {count(len(found), 'wrong field')}"
        return HttpProblem(status=422, code="bad_fields", detail=detail, errors=listed).response(
            request_id_of(request)
        )

    app.add_exception_handler(ForewarnError, known_error)
    app.add_exception_handler(ClientDisconnect, known_error)
    app.add_exception_handler(HTTPException, http_error)
    app.add_exception_handler(RequestValidationError, invalid)


def request_id_of(request: Request) -> str | None:
    """Return the id of a request, which the log has too."""
    request_id: str | None = request.scope.get("state", {}).get("request_id")
    return request_id


# Pydantic's words for what has a plain name here.
_REASONS = {
    "missing": "this field is required",
    "extra_forbidden": "there is no such field",
    "string_type": "expected a text",
    "list_type": "expected a list",
    "dict_type": "expected an object",
    "model_attributes_type": "expected an object",
    "model_type": "expected an object",
    "bool_type": "expected true or false",
    "int_type": "expected a whole number",
    "float_type": "expected a number",
}


# Of texts that must match a regular expression, by the field's name.
_PATTERNS = {
    "job_id": "expected a job id such as 123, 123_4 (a task of an array) or 123+1 (a component)",
    "work_dir": "expected an absolute path of at most 4096 characters",
}


def _listed(one: Mapping[str, Any]) -> dict[str, str]:
    if one["type"] == "json_invalid":
        place = f" at character {one['loc'][-1]}" if isinstance(one["loc"][-1], int) else ""
        return {"path": "", "reason": f"the body is not JSON{place}"}
    if one["type"] == "string_pattern_mismatch" and one["loc"][-1] in _PATTERNS:
        return {"path": _pointer(one["loc"]), "reason": _PATTERNS[one["loc"][-1]]}
    reason = _REASONS.get(one["type"], str(one["msg"]).removeprefix("Value error, "))
    return {"path": _pointer(one["loc"]), "reason": reason}


def _pointer(location: Sequence[Any]) -> str:
    """Write where a field stands: ``/body/script`` as ``/script``, a query parameter as ``?limit``."""
    where, *path = location
    parts = "/".join(str(part).replace("~", "~0").replace("/", "~1") for part in path)
    return f"?{parts}" if where == "query" else f"/{parts}"
