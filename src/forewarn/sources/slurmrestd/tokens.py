"""JSON web tokens for Slurm: where they come from, their claims, and their renewal.

The format of a token is checked when it is read, its signature never: the key belongs to Slurm alone. A token
is a secret: no message contains it, nor any part of a text given in its place.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from forewarn.config import is_user_name
from forewarn.errors import ExpiredTokenError, TokenError
from forewarn.formatting import rough_duration
from forewarn.sources.slurm.clock import Clock

VARIABLE = "SLURM_JWT"
LIFESPAN = 3600  # seconds, of tokens requested here
_LONGEST = 1 << 16  # characters; real ones have some hundred, those of an identity provider some thousand
_FOR_EVER = 1 << 53  # seconds
_FORM = re.compile(r"[A-Za-z0-9_-]+={0,2}(?:\.[A-Za-z0-9_-]+={0,2}){2}")
_MARGIN = 60  # seconds before its end, or a tenth of its life if less, at which it is renewed
_HOW = (
    "get one by `scontrol token lifespan=86400`, and set it as SLURM_JWT, or in the file of slurm_token_file"
)


@dataclass(frozen=True, slots=True)
class Token:
    """A token and its claims, as far as they can be read."""

    text: str = field(repr=False)
    user: str | None = None
    issued: int | None = None
    expires: int | None = None

    @classmethod
    def read(cls, text: str) -> Token:
        """Read a token, or what `scontrol token` prints. Raises a ValueError that shows nothing of it.

        >>> from jwt import encode
        >>> Token.read("SLURM_JWT=" + encode({"exp": 1600, "iat": 1000, "sun": "ann"}, "k" * 32))
        Token(user='ann', issued=1000, expires=1600)
        >>> Token.read("garbage")
        Traceback (most recent call last):
        ValueError: this is not a JSON web token: three parts of letters, digits, - and _, with dots between
        """
        bare = text.strip().removeprefix(VARIABLE + "=").strip()
        if not bare:
            raise ValueError("the token is empty")
        if len(lines := bare.splitlines()) > 1:
            raise ValueError(f"{len(lines)} lines, but a token is one line")
        if len(bare) > _LONGEST or _FORM.fullmatch(bare) is None:
            raise ValueError(
                "this is not a JSON web token: three parts of letters, digits, - and _, with dots between"
            )
        claims = _decode_claims(bare)
        return cls(bare, _user(claims), _moment(claims, "iat"), _moment(claims, "exp"))

    def is_due(self, at: float) -> bool:
        """Check whether it ends so soon that a new one is needed."""
        if self.expires is None:
            return False
        life = self.expires - self.issued if self.issued is not None else LIFESPAN
        return at >= self.expires - min(_MARGIN, life / 10)


def _decode_claims(text: str) -> Mapping[str, object]:
    """Decode the claims of a token: whose it is, when it expires. Its signature is not verified."""
    import jwt  # 17 ms, 55 ms where `cryptography` is installed: only for commands that use a token

    try:
        return jwt.decode(text, options={"verify_signature": False})
    except jwt.InvalidTokenError:
        # PyJWT's message is left out: it can quote what the token holds.
        raise ValueError(
            "this is not a JSON web token: its header, claims or signature cannot be decoded"
        ) from None


def _user(claims: Mapping[str, object]) -> str | None:
    """Read whose token it is. The name goes into a header and into messages."""
    name = next((claims[key] for key in ("sun", "username") if isinstance(claims.get(key), str)), None)
    if name is not None and not is_user_name(str(name)):
        raise ValueError("the user in the token is not a user name")
    return None if name is None else str(name)


def _moment(claims: Mapping[str, object], key: str) -> int | None:
    value = claims.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _FOR_EVER:
        raise ValueError(f"the token's {key} is not a time in seconds")
    return int(value)


@dataclass(slots=True)
class Tokens:
    """The current token. `fetch` returns one; where it can return a newer one later, it is `renewable`."""

    fetch: Callable[[], str]
    origin: str  # in words: for messages
    renewable: bool
    clock: Clock = field(default_factory=Clock)
    _current: Token | None = None

    def current(self) -> Token:
        """Return a token that has not expired, fetched again where the last one is about to."""
        now = self.clock.now()
        if self._current is None or (self.renewable and self._current.is_due(now)):
            try:
                self._current = Token.read(self.fetch())
            except ValueError as error:
                raise TokenError(f"{self.origin}: {error}; {_HOW}") from None
        expires = self._current.expires
        if expires is not None and expires <= now:
            raise ExpiredTokenError(
                f"{self.origin}: the token expired {rough_duration(now - expires)} ago; {_HOW}"
            )
        return self._current

    def renew(self) -> bool:
        """Drop the token after Slurm refused it; False where there can be no other."""
        self._current = None
        return self.renewable


def from_text(text: str, origin: str, clock: Clock | None = None) -> Tokens:
    """Use one token that does not change."""
    return Tokens(lambda: text, origin, renewable=False, clock=clock or Clock())


def from_file(path: Path, clock: Clock | None = None) -> Tokens:
    """Use a token that another process renews in a file."""

    def fetch() -> str:
        try:
            with path.open(encoding="ascii", errors="replace") as file:
                return file.read(_LONGEST + 1)
        except OSError as error:
            raise TokenError(f"{path}: the token cannot be read: {error.strerror}; {_HOW}") from None

    return Tokens(fetch, str(path), renewable=True, clock=clock or Clock())


def from_command(user: str | None, clock: Clock | None = None, timeout: float = 30.0) -> Tokens:
    """Use tokens that slurmctld issues for the current user; only root and SlurmUser may name a `user`."""
    command = ["scontrol", "token", f"lifespan={LIFESPAN}", *([f"username={user}"] if user else [])]

    def fetch() -> str:
        try:
            done = subprocess.run(
                command, capture_output=True, encoding="utf-8", errors="replace", timeout=timeout, check=False
            )
        except FileNotFoundError:
            raise TokenError(
                f"no token is configured, and there is no scontrol to issue one; {_HOW}"
            ) from None
        except subprocess.TimeoutExpired:
            raise TokenError(f"`{' '.join(command)}` did not answer within {timeout:.0f} s") from None
        if done.returncode or VARIABLE not in done.stdout:
            # Not its standard output, which could still be a token.
            message = done.stderr.strip().partition("\n")[0][:300]
            message = message if message and VARIABLE not in message else f"exit code {done.returncode}"
            raise TokenError(f"`{' '.join(command)}` gave no token: {message}")
        return done.stdout

    return Tokens(fetch, "scontrol token", renewable=True, clock=clock or Clock())


def is_configured(token: str | None, file: Path | None, environ: Mapping[str, str] = os.environ) -> bool:
    """Check whether a token is set, so that none need be issued."""
    return bool(token or file or environ.get(VARIABLE))


def find_tokens(
    token: str | None,
    file: Path | None,
    user: str | None,
    *,
    environ: Mapping[str, str] = os.environ,
    clock: Clock | None = None,
) -> Tokens:
    """Choose the first source that is set: configured token, configured file, SLURM_JWT, `scontrol token`."""
    if token:
        return from_text(token, "slurm_token", clock)
    if file:
        return from_file(file, clock)
    if environ.get(VARIABLE):
        return from_text(environ[VARIABLE], VARIABLE, clock)
    return from_command(user, clock)
