"""The outbox: notices in the store of people's entries, so that a restart neither loses nor doubles one.

A notice is written by the notifier alone. An acknowledgement is an entry of its own, so that whoever
acknowledges never overwrites what the notifier writes at the same moment.
"""

from __future__ import annotations

import logging

from forewarn.operate.notices.notice import Notice
from forewarn.store.people import Entry, PeopleStore

log = logging.getLogger(__name__)


class Outbox:
    """The stored notices and their acknowledgements."""

    def __init__(self, people: PeopleStore) -> None:
        self._people = people

    def save(self, notice: Notice) -> None:
        """Write a notice, replacing what was known of it."""
        self._people.put("notice", notice.id, notice.to_json(), at=notice.at)

    def get(self, notice_id: str) -> Notice | None:
        """Return a notice."""
        entry = self._people.get("notice", notice_id)
        return None if entry is None else _read(entry)

    def newest(self, number: int) -> list[Notice]:
        """Return the newest notices, oldest first."""
        found = (_read(entry) for entry in self._people.entries("notice", newest=number))
        return [notice for notice in found if notice is not None]

    def acknowledge(self, notice_id: str, by: str, at: int) -> int:
        """Record that somebody has seen a notice; return when that was first done."""
        earlier = self.acknowledged_at(notice_id)
        if earlier is not None:
            return earlier
        self._people.put("acknowledgement", notice_id, {"by": by}, at=at)
        return at

    def acknowledged_at(self, notice_id: str) -> int | None:
        """Return when a notice was acknowledged."""
        entry = self._people.get("acknowledgement", notice_id)
        return None if entry is None else entry.at

    def acknowledgements(self) -> dict[str, int]:
        """Return when each notice was acknowledged."""
        return {entry.key: entry.at for entry in self._people.entries("acknowledgement")}

    def forget(self, before: int) -> int:
        """Delete notices and acknowledgements from before a time; return how many notices."""
        self._people.forget("acknowledgement", before)
        return self._people.forget("notice", before)


def _read(entry: Entry) -> Notice | None:
    try:
        return Notice.from_json(entry.value)
    except (KeyError, ValueError, TypeError):  # of another version
        log.warning("notice %s cannot be read and is left out", entry.key)
        return None
