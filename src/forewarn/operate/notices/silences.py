"""Silences: which notices are not sent, until when, and why. People set them, and rules that disappoint."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass, fields
from typing import Any

from forewarn.store.people import Entry, PeopleStore

AUTOMATIC = "forewarn"  # who silenced, where nobody did


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """A silence: it applies to notices that match every field that is given."""

    id: str
    at: int
    by: str
    reason: str
    until: int | None = None  # None: until it is lifted
    rule: str | None = None
    recipient: str | None = None
    user: str | None = None  # owner of the job
    node: str | None = None
    lifted_at: int | None = None
    lifted_by: str | None = None

    def is_active(self, at: int) -> bool:
        """Check whether it holds at a moment."""
        return self.lifted_at is None and (self.until is None or at < self.until)

    def ended_at(self, at: int) -> int | None:
        """Return when it ended, if it has."""
        if self.is_active(at):
            return None
        return self.until if self.lifted_at is None else self.lifted_at

    def applies(self, *, rule: str, recipient: str, user: str | None, nodes: Collection[str]) -> bool:
        """Check whether it matches a notice; one about several nodes only if all are silenced.

        >>> silence = Silence(id="1", at=0, by="ann", reason="", rule="risk", recipient="user:ann")
        >>> silence.applies(rule="risk", recipient="user:ann", user="ann", nodes=())
        True
        """
        return (
            self.rule in (None, rule)
            and self.recipient in (None, recipient)
            and self.user in (None, user)
            and (self.node is None or (bool(nodes) and set(nodes) <= {self.node}))
        )

    def to_json(self) -> dict[str, Any]:
        """Convert to JSON."""
        return asdict(self)


class Silences:
    """The stored silences."""

    def __init__(self, people: PeopleStore) -> None:
        self._people = people

    def add(
        self,
        *,
        at: int,
        by: str,
        reason: str,
        until: int | None = None,
        rule: str | None = None,
        recipient: str | None = None,
        user: str | None = None,
        node: str | None = None,
    ) -> Silence:
        """Save a silence."""
        value = {"by": by, "reason": reason, "until": until, "rule": rule, "recipient": recipient}
        value |= {"user": user, "node": node}
        return _read(Entry("silence", self._people.add("silence", value, at=at), at, value))

    def all(self) -> list[Silence]:
        """Return all silences, past ones too, in order of time."""
        return [_read(entry) for entry in self._people.entries("silence")]

    def active(self, at: int) -> list[Silence]:
        """Return the silences that hold now."""
        return [one for one in self.all() if one.is_active(at)]

    def get(self, silence_id: str) -> Silence | None:
        """Return a silence."""
        entry = self._people.get("silence", silence_id)
        return None if entry is None else _read(entry)

    def lift(self, silence: Silence, *, by: str, at: int) -> None:
        """End a silence; it stays readable, and a rule that was silenced is counted from then on."""
        value = {name: own for name, own in silence.to_json().items() if name not in ("id", "at")}
        lifted = value | {"lifted_at": at, "lifted_by": by}
        self._people.put("silence", silence.id, lifted, at=silence.at)

    def forget(self, before: int) -> None:
        """Delete silences that ended before a time."""
        for one in self.all():
            if (ended := one.ended_at(before)) is not None and ended < before:
                self._people.remove("silence", one.id)


def _read(entry: Entry) -> Silence:
    known = {one.name for one in fields(Silence)} - {"id", "at"}
    values = {name: own for name, own in entry.value.items() if name in known}
    return Silence(id=entry.key, at=entry.at, **values)
