"""Slurm's own tokens, verified in the way that the site has configured."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import httpx
import jwt

from forewarn.config import Config, is_user_name
from forewarn.errors import TokenError, UnauthenticatedError, UsageError
from forewarn.operate.access.credentials import Proof
from forewarn.operate.access.key_set import LONGEST_TOKEN, KeySet, trusted_client, verify_token
from forewarn.sources.slurm.clock import Clock
from forewarn.sources.slurmrestd.token_check import TokenCheck
from forewarn.sources.slurmrestd.tokens import Token

METHOD = "slurm"
_SHORTEST_KEY = 32  # bytes: RFC 7518 asks for as many as SHA-256 has
_LONGEST_KEY = 1 << 16


class SlurmTokens:
    """The verifier of Slurm's tokens; none of its ways believes the user name that a caller states."""

    def __init__(self, config: Config, clock: Clock | None = None) -> None:
        access = config.access
        self._way = access.slurm_tokens
        self._leeway = access.clock_skew
        self._claim = access.slurm_user_claim
        self._clock = clock or Clock()
        self._keys: KeySet | None = None
        self._client: httpx.Client | None = None
        self._check: TokenCheck | None = None
        self._key = b""
        if self._way == "jwks":
            if access.slurm_jwks is None:
                raise UsageError('access.slurm_tokens is "jwks", but access.slurm_jwks is not set')
            if "://" in access.slurm_jwks:
                self._client = trusted_client(access.slurm_jwks_ca_file, "slurm_jwks_ca_file")
            self._keys = KeySet(access.slurm_jwks, client=self._client, clock=clock)
        elif self._way == "slurmrestd":
            if config.slurmrestd is None:
                raise UsageError(
                    'access.slurm_tokens is "slurmrestd", but its address is not set: slurmrestd'
                )
            self._check = TokenCheck(config.slurmrestd, ca_file=config.slurm_ca_file, clock=clock)
        elif self._way == "key":
            if access.slurm_key_file is None:
                raise UsageError('access.slurm_tokens is "key", but access.slurm_key_file is not set')
            self._key = read_key(access.slurm_key_file)

    @property
    def asks_slurm(self) -> bool:
        """Whether each token is a question to slurmrestd."""
        return self._check is not None

    def prove(self, text: str) -> Proof:
        """Verify a token; raise `UnauthenticatedError` if Slurm would not accept it.

        Raises `SchedulerError` or `KeySourceError` where that cannot be found out now.
        """
        if len(text) > LONGEST_TOKEN:
            raise UnauthenticatedError("the token is too long")
        if self._keys is not None:
            user, expires = self._read_claims(verify_token(text, self._keys, leeway=self._leeway))
        elif self._check is not None:
            user, expires = self._confirmed(text, self._check)
        elif self._key:
            user, expires = self._read_claims(self._signed(text))
        else:
            raise UnauthenticatedError("Slurm's tokens are not accepted here (access.slurm_tokens)")
        if ":" in user:  # which would be read as `group:NAME` in the lists of roles, or as a program's name
            raise UnauthenticatedError("the user in the token is not a user name")
        return Proof(user=user, method=METHOD, expires=expires)

    def _confirmed(self, text: str, check: TokenCheck) -> tuple[str, float]:
        try:
            token = Token.read(text)
        except ValueError:
            raise UnauthenticatedError("this is not a JSON web token") from None
        if token.user is None or token.expires is None:
            raise UnauthenticatedError("the token does not name its user and its end")
        if token.expires <= self._clock.now():
            raise UnauthenticatedError("the token has expired")
        try:
            check.confirm(token)
        except TokenError:
            raise UnauthenticatedError("Slurm does not accept the token") from None
        return token.user, float(token.expires)

    def _signed(self, text: str) -> dict[str, object]:
        try:
            return jwt.decode(
                text,
                self._key,
                algorithms=["HS256"],
                leeway=self._leeway,
                options={"require": ["exp"], "verify_aud": False, "verify_sub": False, "verify_jti": False},
            )
        except jwt.ExpiredSignatureError:
            raise UnauthenticatedError("the token has expired") from None
        except (jwt.PyJWTError, TypeError, ValueError, OverflowError):
            raise UnauthenticatedError("the token was not signed with Slurm's key") from None

    def _read_claims(self, claims: dict[str, object]) -> tuple[str, float]:
        user, expires = claims.get(self._claim), claims.get("exp")
        if not isinstance(user, str) or not is_user_name(user):
            raise UnauthenticatedError(f"the token names no user ({self._claim})")
        if isinstance(expires, bool) or not isinstance(expires, int | float):
            raise UnauthenticatedError("the token does not name its end")
        return user, float(expires)

    def close(self) -> None:
        """Close connections."""
        for one in (self._check, self._client):
            if one is not None:
                one.close()


def read_key(path: Path) -> bytes:
    """Read Slurm's HS256 key; refuse one that is short or that others can read."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            key = file.read(_LONGEST_KEY + 1)
    except OSError as error:
        raise UsageError(f"access.slurm_key_file: {path}: cannot be read: {error.strerror}") from None
    if not stat.S_ISREG(mode):
        raise UsageError(f"access.slurm_key_file: {path}: is not a file")
    if mode & (stat.S_IROTH | stat.S_IWOTH | stat.S_IWGRP):
        raise UsageError(
            f"access.slurm_key_file: {path}: others can read or change it, and who reads it can be anyone: "
            "chmod 0640, or replace the key"
        )
    # Not of its stripped text: a random key may well end with the byte of a line break.
    if not _SHORTEST_KEY <= len(key) <= _LONGEST_KEY or len(set(key)) < 8:
        raise UsageError(
            f"access.slurm_key_file: {path}: a key of {len(key)} bytes is empty, too short or no key: "
            f"Slurm's has at least {_SHORTEST_KEY} random bytes"
        )
    return key
