"""What both clients share: how a call becomes a request, and a response an answer or an error."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import httpx

from forewarn.errors import (
    BadField,
    BadFieldsError,
    ForbiddenError,
    ForewarnError,
    LearningError,
    OverloadedError,
    RateLimitError,
    RefusedError,
    SchedulerError,
    ScriptUnknownError,
    ServiceAwayError,
    ServiceError,
    SlurmTokenNeededError,
    StoreError,
    TokenError,
    UnauthenticatedError,
    UnknownJobError,
    UnknownNoticeError,
    UsageError,
)
from forewarn.serve.client.address import CA_FILE, ServiceEndpoint
from forewarn.serve.client.call import ServiceCall
from forewarn.serve.rest.safe_text import one_line

TIMEOUT, CONNECT_TIMEOUT = 30.0, 5.0  # seconds
LARGEST = 256 << 20  # bytes of an answer: ten times the largest batch
TRIES = 2  # of a request that changes nothing, where the connection failed
_MOST_FIELDS = 100  # wrong fields that are kept
Answer = TypeVar("Answer")

# The errors of the library that problems are, by their codes; all others are a `ServiceError`.
_BY_CODE: Mapping[str, Callable[[str], ForewarnError]] = {
    "bad_request": UsageError,
    "unauthenticated": UnauthenticatedError,
    "forbidden": ForbiddenError,
    "slurm_token_needed": SlurmTokenNeededError,
    "slurm_token_refused": TokenError,
    "unknown_job": UnknownJobError,
    "unknown_notice": UnknownNoticeError,
    "refused_by_slurm": RefusedError,
    "script_unknown": ScriptUnknownError,
    "slurm_away": SchedulerError,
    "store_away": StoreError,
    "model_away": LearningError,
}


def http_settings(address: ServiceEndpoint, timeout: float) -> dict[str, Any]:
    """Return the settings that the clients of httpx share.

    The environment's proxies and passwords are not used: a token goes to the service and nowhere else.
    """
    return {
        "base_url": address.base,
        "headers": {**address.headers, "Accept": "application/json"},
        "timeout": httpx.Timeout(timeout, connect=min(timeout, CONNECT_TIMEOUT)),
        "trust_env": False,
    }


def tls_settings(address: ServiceEndpoint) -> Any:
    """Return whom to trust; reading all certificates of a system takes time, so only where it is needed."""
    if not address.is_encrypted:
        return False
    import ssl

    try:
        return ssl.create_default_context(cafile=address.ca_file)
    except OSError as error:
        raise UsageError(f"{address.ca_file}: cannot be read as CA certificates: {error}") from None


def request_of(client: httpx.Client | httpx.AsyncClient, call: ServiceCall[Any]) -> httpx.Request:
    """Build the request of a call."""
    content = None
    if call.body is not None:
        # ASCII, so that lone surrogates of file names arrive as such and are refused by name.
        content = json.dumps(call.body, allow_nan=False).encode()
    headers = {} if content is None else {"Content-Type": "application/json"}
    return client.build_request(
        call.method, call.path, params=call.parameters, content=content, headers=headers
    )


def tries_of(call: ServiceCall[Any]) -> int:
    """Return how often a call may be sent: one that acts might have acted before the connection broke."""
    return 1 if call.changes else TRIES


def is_connection_error(error: httpx.TransportError) -> bool:
    """Tell whether a new connection may help; after a time-out it would only take as long again."""
    return isinstance(error, httpx.NetworkError | httpx.RemoteProtocolError)


def away(address: ServiceEndpoint, error: Exception) -> ServiceAwayError:
    """Return the error for a service that does not answer."""
    if isinstance(error, httpx.TimeoutException):
        reason = "it did not answer in time"
    elif (untrusted := _tls_error(error)) is not None:
        return _untrusted(address, untrusted)
    elif isinstance(error, httpx.RemoteProtocolError) and not address.is_encrypted and not address.socket:
        reason = f"{one_line(str(error))} If it uses TLS, the address begins with https://"
    else:
        reason = one_line(str(error)) or type(error).__name__
    return ServiceAwayError(f"the service at {address} does not answer: {reason}")


def _tls_error(error: BaseException) -> OSError | None:
    """Return the error of TLS that an error of httpx comes from; it is told by its name, as `ssl` is slow."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and type(cause).__module__ == "ssl":
            return cause
        cause = cause.__cause__ or cause.__context__
    return None


def _untrusted(address: ServiceEndpoint, error: OSError) -> ServiceAwayError:
    """Return the error for a service with which no trusted connection comes about."""
    reason = getattr(error, "verify_message", "") or getattr(error, "reason", "") or str(error)
    return ServiceAwayError(
        f"the service at {address}: no trusted TLS connection: {one_line(str(reason))}. Name the site's "
        f"certificates by {CA_FILE}; if the service does not use TLS, the address begins with http://"
    )


def too_large(address: ServiceEndpoint) -> ServiceError:
    """Return the error for an answer that does not end."""
    return ServiceError(f"the service at {address} sent more than {LARGEST >> 20} MiB in one answer")


def answer_of(
    call: ServiceCall[Answer], address: ServiceEndpoint, response: httpx.Response, body: bytes
) -> Answer:
    """Read the answer to a call, or raise the error that it is."""
    if not response.is_success and response.status_code not in call.accepts:
        raise_problem(address, response, body)
    try:
        return call.read(json.loads(body))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        reason = one_line(f"{type(error).__name__}: {error}")
        raise ServiceError(
            f"the answer of {address} to {call.method} {call.path} cannot be read ({reason}): is it a "
            "Forewarn of another version, or another server?",
            status=response.status_code,
        ) from None


def raise_problem(address: ServiceEndpoint, response: httpx.Response, body: bytes) -> None:
    """Raise the error that a problem+json describes; its text is shortened to one line."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    problem: Mapping[str, Any] = found if isinstance(found, Mapping) else {}
    code, status = _text(problem.get("code")), response.status_code
    detail = _text(problem.get("detail")) or f"HTTP status {status}"
    fields = _fields(problem.get("errors"))
    cause = ServiceError(
        f"the service at {address}: {detail}",
        status=status,
        code=code or None,
        detail=detail,
        errors=fields,
        request_id=_text(problem.get("request_id")) or None,
    )
    if code == "bad_fields" and fields:
        raise BadFieldsError("the request", fields) from cause
    if code in ("rate_limited", "overloaded"):
        kind = RateLimitError if code == "rate_limited" else OverloadedError
        raise kind(detail, _seconds(response.headers.get("retry-after"))) from cause
    if code in _BY_CODE:
        raise _BY_CODE[code](detail) from cause
    raise cause


def _text(value: object) -> str:
    return one_line(value) if isinstance(value, str) else ""


def _fields(value: object) -> tuple[BadField, ...]:
    listed = value[:_MOST_FIELDS] if isinstance(value, list) else []
    return tuple(
        BadField(_text(one.get("path")), _text(one.get("reason")))
        for one in listed
        if isinstance(one, Mapping)
    )


def _seconds(text: str | None) -> float:
    return float(text) if text and text.isascii() and text.isdigit() and len(text) < 6 else 1.0
