"""Tokens for programs: created by an admin, shown once, kept as a hash, revocable."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from typing import Any

from forewarn.config import is_user_name
from forewarn.errors import UnauthenticatedError, UsageError
from forewarn.operate.access.credentials import Proof
from forewarn.operate.access.identity import Role
from forewarn.sources.slurm.clock import Clock
from forewarn.store.people import Entry, PeopleStore

METHOD = "service-token"
PREFIX = "fwt_"
_FORM = re.compile(r"fwt_[A-Za-z0-9_-]{43}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceToken:
    """What is kept of a token: everything but the token."""

    name: str
    role: Role
    user: str
    created_at: int
    created_by: str
    expires_at: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "name": self.name,
            "role": self.role.value,
            "user": self.user,
            "created_at": self.created_at,
            "created_by": self.created_by,
            "expires_at": self.expires_at,
        }


class ServiceTokens:
    """The tokens in the store of people's entries."""

    def __init__(self, people: PeopleStore, clock: Clock | None = None) -> None:
        self._people = people
        self._clock = clock or Clock()

    def create(
        self,
        name: str,
        role: Role,
        *,
        by: str,
        user: str | None = None,
        expires_at: int | None = None,
    ) -> tuple[str, ServiceToken]:
        """Create a token; return its text, which nobody can show again, and what is kept of it."""
        now = int(self._clock.now())
        if _NAME.fullmatch(name) is None:
            raise UsageError(f"{name!r}: a name has letters, digits, dots, - and _, at most 64 of them")
        if user is not None and not is_user_name(user):
            raise UsageError(f"{user!r} is not a user name")
        if role in (Role.USER, Role.COORDINATOR) and user is None:
            raise UsageError(
                f"a token with the role {role.value} sees the jobs of one user: name it by --user"
            )
        if expires_at is not None and expires_at <= now:
            raise UsageError("the token would have expired already")
        if any(token.name == name for token in self.all()):
            raise UsageError(f"there is a token {name} already: revoke it first, or choose another name")
        token = ServiceToken(
            name=name,
            role=role,
            user=user or f"token:{name}",
            created_at=now,
            created_by=by,
            expires_at=expires_at,
        )
        text = PREFIX + secrets.token_urlsafe(32)
        self._people.put("token", _hash(text), token.to_json(), at=now)
        return text, token

    def all(self) -> list[ServiceToken]:
        """Return all tokens, the expired ones too, oldest first."""
        return [_read(entry) for entry in self._people.entries("token")]

    def revoke(self, name: str) -> ServiceToken:
        """Delete a token; from then on it proves nothing."""
        for entry in self._people.entries("token"):
            if entry.value.get("name") == name:
                self._people.remove("token", entry.key)
                return _read(entry)
        raise UsageError(f"there is no token {name}; `forewarn tokens list` shows all")

    def prove(self, text: str) -> Proof:
        """Verify a token; raise `UnauthenticatedError` if it is unknown, was revoked or has expired."""
        if _FORM.fullmatch(text) is None:
            raise UnauthenticatedError("this is not a token of this service")
        return self.prove_by_key(_hash(text))

    def prove_by_key(self, key: str) -> Proof:
        """Return what a token proves, by the hash that is kept of it."""
        entry = self._people.get("token", key)
        if entry is None or not hmac.compare_digest(entry.key, key):
            raise UnauthenticatedError("the token is unknown or was revoked")
        token = _read(entry)
        if token.expires_at is not None and token.expires_at <= self._clock.now():
            raise UnauthenticatedError("the token has expired")
        return Proof(
            user=token.user, method=METHOD, expires=token.expires_at, role=token.role, token_key=entry.key
        )


def _read(entry: Entry) -> ServiceToken:
    value = entry.value
    return ServiceToken(
        name=value["name"],
        role=Role(value["role"]),
        user=value["user"],
        created_at=value["created_at"],
        created_by=value["created_by"],
        expires_at=value["expires_at"],
    )


def _hash(text: str) -> str:
    """Hash a token: 256 random bits need neither salt nor a slow hash."""
    return hashlib.sha256(text.encode()).hexdigest()
