"""Whether Slurm accepts a token: asked of slurmrestd, with that token.

slurmrestd itself verifies nothing: it passes the token on to the daemons. Seen on 22.05, 24.11 and 26.05:

- `ping` answers 200 whatever the token is (since 24.11), so it proves nothing; `diag` is answered by
  slurmctld only with a valid token: 511 otherwise, 500 in 22.05;
- a user name other than the token's is refused, except with a token of root or SlurmUser, which may act as
  anyone. So the name sent is always the token's own, and what a caller states beside it is never believed.

A slurmrestd behind a proxy that brings a token of its own, or one that knows its clients by the socket
(`rest_auth/local` alone), would accept anything. So it must also refuse a token with a random key.
"""

from __future__ import annotations

import secrets
import threading
from pathlib import Path

from forewarn.errors import ControllerDownError, MalformedAnswerError, SchedulerError, TokenError
from forewarn.sources.slurm.clock import Clock
from forewarn.sources.slurmrestd.address import Address
from forewarn.sources.slurmrestd.refusals import refusal
from forewarn.sources.slurmrestd.tokens import Token
from forewarn.sources.slurmrestd.transport import Transport
from forewarn.sources.slurmrestd.versions import ServedVersions, number_of

MOST_WAITING = 16  # threads: a slurmrestd that hangs must not take all of a service
_TIMEOUT = 10.0  # seconds: somebody waits for it
_MOST_BYTES = 64 << 20
_REFUSAL_COUNTS = 3600.0  # seconds until slurmrestd must show again that it refuses a forged token


class TokenCheck:
    """Asks one slurmrestd about tokens; any number of threads may use it, one request is in flight."""

    def __init__(self, address: str, *, ca_file: Path | None = None, clock: Clock | None = None) -> None:
        self._clock = clock or Clock()
        self._transport = Transport(
            Address.read(address), ca_file=ca_file, timeout=_TIMEOUT, most_bytes=_MOST_BYTES, clock=clock
        )
        self._version: str | None = None
        self._refused_forged_at: float | None = None
        self._accepted: Token | None = None  # the last one, to see whether a controller is up
        self._lock = threading.Lock()
        self._places = threading.BoundedSemaphore(MOST_WAITING)

    def confirm(self, token: Token) -> None:
        """Return if Slurm accepts the token of its user; raise `TokenError` if not.

        Raises another `SchedulerError` where Slurm cannot be asked now, or very many tokens wait for it.
        """
        if token.user is None or token.expires is None:
            raise TokenError("the token does not name its user and its end")
        if not self._places.acquire(blocking=False):
            raise SchedulerError(f"{self._transport.address}: too many tokens wait to be verified: try again")
        try:
            with self._lock:
                self._confirm(token)
                self._accepted = token
                self._check_refuses_forged()  # after a token that was accepted: so the controller is up
        finally:
            self._places.release()

    def _confirm(self, token: Token) -> None:
        """Ask about a token; 22.05 answers alike for one that is refused and a controller that is down.

        So a token that was accepted before is tried then: where that is accepted still, the other is refused.
        """
        try:
            self._ask(token)
        except ControllerDownError as error:
            known = self._accepted
            if known is None or not self._is_ambiguous():
                raise
            if known.text == token.text or (known.expires or 0) <= self._clock.now():
                raise
            self._ask(known)
            raise TokenError(str(error)) from None

    def _check_refuses_forged(self) -> None:
        now = self._clock.monotonic()
        if self._refused_forged_at is not None and now - self._refused_forged_at < _REFUSAL_COUNTS:
            return
        import jwt

        at = int(self._clock.now())
        forged = jwt.encode({"sun": "root", "iat": at, "exp": at + 60}, secrets.token_bytes(32), "HS256")
        try:
            self._ask(Token.read(forged))
        except TokenError:
            self._refused_forged_at = now
            return
        except ControllerDownError:
            if not self._is_ambiguous():
                raise
            self._refused_forged_at = now  # as 22.05 refuses a token
            return
        raise SchedulerError(
            f"{self._transport.address}: accepts a token with a random key, so it cannot tell who is "
            "calling: ask a slurmrestd with -a rest_auth/jwt, without a proxy that adds a token, or use "
            'access.slurm_tokens = "jwks"'
        )

    def _is_ambiguous(self) -> bool:
        return self._version is not None and number_of(self._version) < 39

    def _ask(self, token: Token) -> None:
        assert token.user is not None
        headers = {"X-SLURM-USER-TOKEN": token.text, "X-SLURM-USER-NAME": token.user}
        version = self._version or self._discover(headers, token)
        path = f"/slurm/{version}/diag"
        place = f"{self._transport.address} {path}"
        with self._transport.ask("GET", path, headers=headers) as answer:
            reply = answer.json()
        error = refusal(answer.status, reply, place, token=token, user=token.user, at=self._clock.now())
        if isinstance(error, ControllerDownError) and number_of(version) < 39:
            self._version = version
            raise error
        if error is not None:
            self._version = None  # after an upgrade another one is served
            raise error
        if not isinstance(reply, dict) or not reply.get("statistics"):
            raise MalformedAnswerError(f"{place}: the answer is not Slurm's")
        self._version = version

    def _discover(self, headers: dict[str, str], token: Token) -> str:
        path = "/openapi/v3"
        place = f"{self._transport.address} {path}"
        with self._transport.ask("GET", path, headers=headers) as answer:
            reply = answer.json()
        error = refusal(answer.status, reply, place, token=token, user=token.user, at=self._clock.now())
        if error is not None:
            raise error
        return ServedVersions.read(reply).best(str(self._transport.address))

    def close(self) -> None:
        """Close the connection."""
        self._transport.close()
