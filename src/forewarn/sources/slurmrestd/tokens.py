"""JSON web tokens for Slurm: where they come from, what they say, and a new one in time.

A token is read, never checked: its key belongs to Slurm alone. It is a secret: no message holds it.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from forewarn.errors import ExpiredTokenError, TokenError
from forewarn.sources.clock import Clock

VARIABLE = "SLURM_JWT"
LIFESPAN = 3600  # seconds, of those that we ask for
_MARGIN = 60  # seconds before its end, or a tenth of its life where that is less, at which one is renewed
_HOW = "make one: `scontrol token lifespan=86400`, in SLURM_JWT, or in the file that slurm_token_file names"


@dataclass(frozen=True, slots=True)
class Token:
    """A token and what it says of itself, as far as it can be read."""

    text: str = field(repr=False)
    user: str | None = None
    issued: int | None = None
    expires: int | None = None

    @classmethod
    def read(cls, text: str) -> Token:
        """Of a token, or of what `scontrol token` prints.

        >>> claims = base64.urlsafe_b64encode(b'{"exp": 1600, "iat": 1000, "sun": "ann"}').decode()
        >>> Token.read(f"SLURM_JWT=e30.{claims}.c2ln")
        Token(user='ann', issued=1000, expires=1600)
        >>> Token.read("of some other kind")
        Token(user=None, issued=None, expires=None)
        """
        bare = text.strip().removeprefix(VARIABLE + "=").strip()
        claims = _claims(bare)
        names = (claims.get(name) for name in ("sun", "username"))
        user = next((name for name in names if isinstance(name, str)), None)
        times = (claims.get(name) for name in ("iat", "exp"))
        issued, expires = (int(t) if isinstance(t, int | float) else None for t in times)
        return cls(bare, user, issued, expires)

    def is_due(self, now: float) -> bool:
        """Whether it ends so soon that a new one is needed."""
        if self.expires is None:
            return False
        life = self.expires - self.issued if self.issued is not None else LIFESPAN
        return now >= self.expires - min(_MARGIN, life / 10)


def _claims(token: str) -> Mapping[str, object]:
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        found = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


@dataclass(slots=True)
class Tokens:
    """The token of now. `fetch` gives one; where it can give a newer one later, it is `renewable`."""

    fetch: Callable[[], str]
    origin: str  # in words: for messages
    renewable: bool
    clock: Clock = field(default_factory=Clock)
    _current: Token | None = None

    def current(self) -> Token:
        """A token that has not expired, fetched again where the last one is about to."""
        now = self.clock.now()
        if self._current is None or (self.renewable and self._current.is_due(now)):
            self._current = Token.read(self.fetch())
        if not self._current.text:
            raise TokenError(f"{self.origin}: the token is empty; {_HOW}")
        expires = self._current.expires
        if expires is not None and expires <= now:
            raise ExpiredTokenError(f"{self.origin}: the token expired {now - expires:,.0f} s ago; {_HOW}")
        return self._current

    def renew(self) -> bool:
        """Forget the token after Slurm refused it; False where there can be no other."""
        self._current = None
        return self.renewable


def from_text(text: str, origin: str, clock: Clock | None = None) -> Tokens:
    """A token that is given once and for all."""
    return Tokens(lambda: text, origin, renewable=False, clock=clock or Clock())


def from_file(path: Path, clock: Clock | None = None) -> Tokens:
    """A token that somebody else renews in a file."""

    def fetch() -> str:
        try:
            return path.read_text(encoding="ascii", errors="replace")
        except OSError as error:
            raise TokenError(f"{path}: the token cannot be read: {error.strerror}; {_HOW}") from None

    return Tokens(fetch, str(path), renewable=True, clock=clock or Clock())


def from_command(user: str | None, clock: Clock | None = None, timeout: float = 30.0) -> Tokens:
    """Tokens that slurmctld makes for whoever runs this; only root and SlurmUser may name a `user`."""
    command = ["scontrol", "token", f"lifespan={LIFESPAN}", *([f"username={user}"] if user else [])]

    def fetch() -> str:
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
        except FileNotFoundError:
            raise TokenError(
                f"no token is configured, and there is no scontrol to make one; {_HOW}"
            ) from None
        except subprocess.TimeoutExpired:
            raise TokenError(f"`{' '.join(command)}` did not answer within {timeout:.0f} s") from None
        if done.returncode or VARIABLE not in done.stdout:
            said = (done.stderr or done.stdout).strip() or f"exit code {done.returncode}"
            raise TokenError(f"`{' '.join(command)}` gave no token: {said}")
        return done.stdout

    return Tokens(fetch, "scontrol token", renewable=True, clock=clock or Clock())


def is_given(token: str | None, file: Path | None, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether somebody has set a token, so that none need be made."""
    return bool(token or file or environ.get(VARIABLE))


def find_tokens(
    token: str | None,
    file: Path | None,
    user: str | None,
    *,
    environ: Mapping[str, str] = os.environ,
    clock: Clock | None = None,
) -> Tokens:
    """The first place that there is: configured token, configured file, SLURM_JWT, `scontrol token`."""
    if token:
        return from_text(token, "slurm_token", clock)
    if file:
        return from_file(file, clock)
    if environ.get(VARIABLE):
        return from_text(environ[VARIABLE], VARIABLE, clock)
    return from_command(user, clock)
