"""The log of every action: who did what, when, from where, and with what result; never a token."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from forewarn.operate.access.identity import Identity
from forewarn.sources.slurm.clock import Clock
from forewarn.store.people import Entry, PeopleStore

_LONGEST = 500  # characters of one value
_LONGEST_ADDRESS = 100
_DEEPEST = 4
_MOST_VALUES = 50
_SECRET_NAME = re.compile(r"(?i)token$|secret|password|cookie|authorization|^session$|^code$")
_SECRET_VALUE = re.compile(r"fwt_[A-Za-z0-9_-]{8,}|eyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]*\.?[A-Za-z0-9_-]*")
HIDDEN = "(not shown)"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditLine:
    """One action."""

    at: float  # Unix seconds, with a fraction: two actions of one second have an order
    user: str
    action: str  # such as cancel, submit, set-threshold, login
    subject: str = ""  # such as the job, the model or the token's name
    result: str = "done"
    role: str | None = None
    method: str | None = None
    address: str | None = None
    details: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "at": self.at,
            "user": self.user,
            "role": self.role,
            "method": self.method,
            "address": self.address,
            "action": self.action,
            "subject": self.subject,
            "result": self.result,
            "details": dict(self.details or {}),
        }


def write_audit_line(
    people: PeopleStore,
    identity: Identity,
    action: str,
    subject: str = "",
    *,
    result: str = "done",
    details: Mapping[str, Any] | None = None,
    address: str | None = None,
    clock: Clock | None = None,
) -> None:
    """Add a line about an action."""
    at = (clock or Clock()).now()
    line = AuditLine(
        at=at,
        user=identity.user,
        role=identity.role.value,
        method=identity.method,
        address=None if address is None else _clean_address(address),
        action=action,
        subject=str(_clean(subject)),
        result=str(_clean(result)),
        details=_clean(dict(details or {})),
    )
    people.add("audit", line.to_json(), at=int(at))


def audit_lines(
    people: PeopleStore,
    *,
    since: int | None = None,
    until: int | None = None,
    users: Iterable[str] = (),
    actions: Iterable[str] = (),
    newest: int | None = None,
) -> list[AuditLine]:
    """Return lines in order of time: those of some users and actions, or the newest of them."""
    of_users, of_actions = frozenset(users), frozenset(actions)
    lines = [
        line
        for line in map(_read, people.entries("audit", since=since, until=until))
        if (not of_users or line.user in of_users) and (not of_actions or line.action in of_actions)
    ]
    lines.sort(key=lambda line: line.at)
    return lines if newest is None else lines[max(0, len(lines) - newest) :]


_OWN = ("at", "user", "role", "method", "address", "action", "subject", "result", "details")


def _read(entry: Entry) -> AuditLine:
    """Read a line; other parts of Forewarn write some with fields of their own, which are details here."""
    value = entry.value
    details = dict(value.get("details") or {}) | {k: v for k, v in value.items() if k not in _OWN}
    return AuditLine(
        at=float(value.get("at") or entry.at),
        user=str(value.get("user") or value.get("by") or "unknown"),
        action=str(value.get("action") or "unknown"),
        subject=str(value.get("subject") or ""),
        result=str(value.get("result") or "done"),
        role=value.get("role"),
        method=value.get("method"),
        address=value.get("address"),
        details=details,
    )


def _clean_address(address: str) -> str:
    """Clean an address, which a proxy may pass on as its client sent it.

    >>> _clean_address("10.0.0.1\\x1b[2J\\n")
    '10.0.0.1[2J'
    """
    return "".join(filter(str.isprintable, str(_clean(address))))[:_LONGEST_ADDRESS]


def _clean(value: Any, name: str = "", depth: int = 0) -> Any:
    """Shorten a value, and leave out what is or looks like a secret.

    >>> _clean({"slurm_token": "x", "note": "fwt_0123456789abcdef", "nodes": 3})
    {'slurm_token': '(not shown)', 'note': '(not shown)', 'nodes': 3}
    """
    if _SECRET_NAME.search(name):
        return HIDDEN
    if isinstance(value, Mapping):
        if depth >= _DEEPEST:
            return "…"
        pairs = list(value.items())[:_MOST_VALUES]
        return {str(key)[:_LONGEST]: _clean(one, str(key), depth + 1) for key, one in pairs}
    if isinstance(value, list | tuple | set | frozenset):
        return (
            "…" if depth >= _DEEPEST else [_clean(one, "", depth + 1) for one in list(value)[:_MOST_VALUES]]
        )
    if value is None or isinstance(value, bool | int | float):
        return value
    text = _SECRET_VALUE.sub(HIDDEN, str(value))
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
