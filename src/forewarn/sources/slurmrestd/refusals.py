"""Refusals of slurmrestd as errors that say what to do.

The HTTP status alone does not suffice: an expired token is 511 from the controller and 502 from the database;
a job that may not be cancelled is 200 since v0.0.39 and 500 before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from forewarn.errors import (
    ClockSkewError,
    ControllerDownError,
    DatabaseDownError,
    ExpiredTokenError,
    RefusedError,
    SchedulerError,
    TokenError,
    UnreachableError,
    VersionGoneError,
    WrongUserError,
)
from forewarn.formatting import rough_duration
from forewarn.sources.slurmrestd.answers import error_words, is_trouble
from forewarn.sources.slurmrestd.tokens import Token

DENIED, UNKNOWN_JOB = 2002, 2017
_HELD = 2042  # "Job is in held state": 22.05 lists it as an error of a job that it has accepted
_PROTOCOL_AUTHENTICATION, _DATABASE = 1007, 7000
_UNSPECIFIED = -1
# What 22.05 answers with "Unspecified error" when it cannot reach slurmctld.
_OF_CONTROLLER = re.compile(r"/slurm/[^/]+/(diag|jobs|nodes|partitions)$")
_NETWORK = 511  # HTTP's "network authentication required": Slurm's daemons refused the token
_SKEW = 10  # seconds by which a token may seem to come from the future
# v0.0.36 and v0.0.37 have no error numbers.
_CODES = (
    (re.compile(r"(?i)unknown job|invalid job id"), UNKNOWN_JOB),
    (re.compile(r"(?i)permission denied"), DENIED),
    (re.compile(r"(?i)protocol authentication error"), _PROTOCOL_AUTHENTICATION),
    (re.compile(r"(?i)unable to contact slurm controller"), 1800),
    (re.compile(r"(?i)unable to connect to database|slurmdbd connection"), _DATABASE),
)


def listed_errors(reply: Any) -> Iterator[tuple[int | None, str]]:
    """Yield number and text of each error of an answer; refused signals are listed apart, in `status`.

    >>> list(listed_errors({"errors": [], "status": [{"error": {"code": 2017, "string": "Invalid job id"}}]}))
    [(2017, 'Invalid job id')]
    """
    if not isinstance(reply, dict):
        return
    for error in filter(is_trouble, reply.get("errors") or ()):
        words = error_words(error)
        number = error.get("error_number") or error.get("error_code") if isinstance(error, dict) else None
        if not (number == _HELD and reply.get("job_id")):
            yield number or _code_of(words), words
    for one in reply.get("status") or ():
        error = one.get("error") if isinstance(one, dict) else None
        if isinstance(error, dict) and error.get("code"):
            yield error["code"], str(error.get("message") or error.get("string"))


def only_errors(reply: Any) -> bool:
    """Check whether an answer has errors and no records, which 22.05 sends with status 200."""
    return any(listed_errors(reply)) and not any(reply.get(name) for name in ("jobs", "nodes", "partitions"))


def _code_of(words: str) -> int | None:
    return next((code for pattern, code in _CODES if pattern.search(words)), None)


def refusal(
    status: int, reply: Any, place: str, *, token: Token | None, user: str | None, at: float
) -> SchedulerError | None:
    """Return the error of an answer, or None; `reply` is its JSON, `place` the request."""
    errors = list(listed_errors(reply))
    words = "; ".join(text for _, text in errors) or f"HTTP status {status}"
    codes = {code for code, _ in errors}
    if status == 401:
        return _unknown_user(place, token)
    if status == _NETWORK or _PROTOCOL_AUTHENTICATION in codes or "authentication error" in words:
        return _not_accepted(place, words, token, user, at)
    if _DATABASE in codes:
        # 26.05 answers the same when slurmdbd refuses the token.
        return _explained(place, token, user, at) or DatabaseDownError(
            f"{place}: slurmdbd does not answer, or refuses the token ({words}): is it running, and is its "
            "database?"
        )
    if any(1800 <= (code or 0) < 1900 for code in codes):
        return ControllerDownError(f"{place}: slurmctld does not answer ({words}): is it running?")
    # 22.05 gives no more, whatever the reason.
    if "config is unable to load" in words or (_UNSPECIFIED in codes and _OF_CONTROLLER.search(place)):
        return _explained(place, token, user, at) or ControllerDownError(
            f"{place}: slurmctld does not answer, or refuses the token ({words}): is it running?"
        )
    if status == 404 and not errors:
        return VersionGoneError(f"{place}: is not served (404)")
    if status in (429, 502, 503, 504) and not errors:
        return UnreachableError(f"{place}: a proxy answers with {status}: is slurmrestd running behind it?")
    if errors or status >= 400:
        code = next((code for code in codes if code), None)
        return RefusedError(f"{place}: Slurm says: {words}", code)
    return None


def _unknown_user(place: str, token: Token | None) -> TokenError:
    if token is None:
        return TokenError(
            f"{place}: slurmrestd requires a token (401), and none is configured: set SLURM_JWT or "
            "slurm_token_file, or let `scontrol token` issue one"
        )
    return TokenError(
        f"{place}: slurmrestd accepts no tokens (401), or this is not one: run it with `-a rest_auth/jwt` "
        "and SLURM_JWT=daemon in its environment; slurm.conf needs AuthAltTypes=auth/jwt"
    )


def _not_accepted(place: str, words: str, token: Token | None, user: str | None, at: float) -> TokenError:
    """Explain that Slurm does not accept a token; its answer gives no reason."""
    if token is None:
        return TokenError(f"{place}: Slurm requires a token ({words})")
    return _explained(place, token, user, at) or TokenError(
        f"{place}: Slurm does not accept the token ({words}): was it issued with the key that jwt_key "
        "names in slurm.conf and slurmdbd.conf, does slurmdbd have AuthAltTypes=auth/jwt too, does its user "
        f"({token.user or 'unknown'}) exist there, do the clocks agree?"
    )


def _explained(place: str, token: Token | None, user: str | None, at: float) -> TokenError | None:
    """Explain a refusal by the content of the token, which mostly suffices."""
    if token is None:
        return None
    if token.expires is not None and token.expires <= at:
        return ExpiredTokenError(
            f"{place}: the token expired {rough_duration(at - token.expires)} ago: `scontrol token` issues a "
            "new one"
        )
    if token.issued is not None and token.issued > at + _SKEW:
        return ClockSkewError(
            f"{place}: the token was issued {token.issued - at:,.0f} s in the future by this host's clock: "
            "synchronise the clocks of this host and of slurmctld's by NTP"
        )
    if user is not None and token.user not in (None, "root", user):
        return WrongUserError(
            f"{place}: the token is {token.user}'s, and was sent as {user}'s (slurm_user): only a token of "
            "SlurmUser or root may act for other users"
        )
    return None
