"""Sessions of browsers: a random id in a cookie, its hash in the store, a Slurm token in memory only."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import threading
from collections import OrderedDict
from dataclasses import dataclass, field

from forewarn.config import AccessConfig
from forewarn.errors import UnauthenticatedError
from forewarn.operate.access.credentials import Proof
from forewarn.operate.access.identity import Role
from forewarn.operate.access.service_tokens import ServiceTokens
from forewarn.sources.slurm.clock import Clock
from forewarn.store.people import Entry, PeopleStore

METHOD = "session"
_FORM = re.compile(r"[A-Za-z0-9_-]{43}")
_TOUCH = 60  # seconds between two notes of when a session was used
_MOST_TOKENS = 10_000


@dataclass(frozen=True, slots=True)
class Session:
    """A new session; the id is known to the browser alone."""

    id: str = field(repr=False)
    expires: int  # Unix seconds

    @property
    def csrf_token(self) -> str:
        """The token that changes carry in a header: a foreign page can send the cookie, but not read it."""
        return csrf_token(self.id)


class Sessions:
    """All sessions of the service."""

    def __init__(self, config: AccessConfig, people: PeopleStore, clock: Clock | None = None) -> None:
        self._config = config
        self._people = people
        self._clock = clock or Clock()
        self._tokens = ServiceTokens(people, clock)
        self._slurm_tokens: OrderedDict[str, tuple[str, float]] = OrderedDict()  # and when it ends
        self._lock = threading.Lock()

    def begin(self, proof: Proof, *, origin: str) -> Session:
        """Begin a session for a proven user; a new id each time, so that nobody can prepare one."""
        now = int(self._clock.now())
        expires = now + self._config.session_length
        # A session does not outlive the token that it was begun with; a login at a provider proves a moment.
        if proof.method in ("slurm", "service-token") and proof.expires is not None:
            expires = min(expires, int(proof.expires))
        self._people.forget("session", now - self._config.session_length)
        text = secrets.token_urlsafe(32)
        self._people.put(
            "session",
            _hash(text),
            {
                "user": proof.user,
                "method": proof.method,
                "groups": sorted(proof.groups),
                "role": proof.role.value if proof.role else None,
                "token_key": proof.token_key,
                "from": origin,
                "expires": expires,
                "used": now,
            },
            at=now,
        )
        return Session(text, expires)

    def prove(self, text: str) -> Proof:
        """Return the user of a session, which is used by that; `UnauthenticatedError` if it has ended."""
        entry, now = self._entry(text), int(self._clock.now())
        if now - entry.value["used"] >= _TOUCH:
            self._people.put("session", entry.key, {**entry.value, "used": now}, at=entry.at)
        return self._proof(entry)

    def look(self, text: str) -> Proof:
        """Return the same; the session is not used by that, and ends as if nobody had asked."""
        return self._proof(self._entry(text))

    def _entry(self, text: str) -> Entry:
        if _FORM.fullmatch(text) is None:
            raise UnauthenticatedError("there is no such session: log in")
        now, key = int(self._clock.now()), _hash(text)
        entry = self._people.get("session", key)
        if entry is None or not hmac.compare_digest(entry.key, key):
            raise UnauthenticatedError("there is no such session: log in")
        value = entry.value
        # Also where the way in which it was begun is no longer accepted.
        is_accepted = value["method"] in (self._config.methods or ("none",))
        if not is_accepted or value["expires"] <= now or value["used"] + self._config.session_idle <= now:
            self._end(key)
            raise UnauthenticatedError("the session has ended: log in again")
        if value["token_key"]:
            self._tokens.prove_by_key(value["token_key"])  # raises if it was revoked
        return entry

    def _proof(self, entry: Entry) -> Proof:
        value = entry.value
        with self._lock:
            slurm_token, until = self._slurm_tokens.get(entry.key, (None, 0.0))
        return Proof(
            user=value["user"],
            method=METHOD,
            expires=value["expires"],
            groups=frozenset(value["groups"]),
            role=Role(value["role"]) if value["role"] else None,
            slurm_token=slurm_token if until > self._clock.now() else None,
            token_key=value["token_key"],
        )

    def keep_slurm_token(self, text: str, slurm_token: str, until: float) -> None:
        """Keep a Slurm token for a session until it ends, in memory: it is gone after a restart."""
        with self._lock:
            self._slurm_tokens[_hash(text)] = (slurm_token, until)
            if len(self._slurm_tokens) > _MOST_TOKENS:
                self._slurm_tokens.popitem(last=False)

    def drop_ended_tokens(self) -> None:
        """Forget the Slurm tokens of sessions that the store no longer has."""
        with self._lock:
            keys = list(self._slurm_tokens)
        for key in keys:
            if self._people.get("session", key) is None:
                with self._lock:
                    self._slurm_tokens.pop(key, None)

    def end(self, text: str) -> bool:
        """End a session; return whether there was one."""
        return self._end(_hash(text))

    def _end(self, key: str) -> bool:
        with self._lock:
            self._slurm_tokens.pop(key, None)
        return self._people.remove("session", key)


def csrf_token(session: str) -> str:
    """Return the token that belongs to a session; without the session's id nobody can compute it."""
    return hmac.new(session.encode("utf-8", "replace"), b"forewarn csrf", hashlib.sha256).hexdigest()


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
