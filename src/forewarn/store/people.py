"""The contract of the store of people's entries: thresholds, audit lines, feedback, sessions, notices.

They are stored apart from observations: they are few and small, they come from several processes at once (the
service, the dashboard, commands), and none of them may wait while an hour of history is written; and who may
read a cluster's history may not read them.

An entry has a kind, a key within it, a moment, and a JSON object. Any number of threads and processes may
read and write at once; each call is one change, there when the call returns, and of two puts to one key the
later one stands. Errors: `UsageError` where the call is wrong, `StoreError` where it fails.

Each implementation passes `tests/store/people_contract.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

from forewarn.errors import UsageError

EntryType = Literal[
    "threshold",
    "audit",
    "feedback",
    "session",
    "token",
    "notice",
    "acknowledgement",
    "silence",
    "subscription",
    "milestone",  # when something was first done in this home, such as notices
]
ENTRY_TYPES: tuple[str, ...] = get_args(EntryType)
# What is written once: nobody changes or removes it by its key, only age does.
WRITTEN_ONCE = frozenset({"audit"})
# What stays when the person whose it is is erased, under a pseudonym; other entries of the person go.
KEPT_FROM_ERASED = WRITTEN_ONCE | {"threshold"}


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that a person set or did."""

    entry_type: str
    key: str
    at: int  # Unix seconds: when it was set or done
    value: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ErasedEntries:
    """How many entries the erasure of a user deleted, and in how many it replaced the name."""

    deleted: int = 0
    renamed: int = 0


class PeopleStore(ABC):
    """A store of entries by kind and key."""

    @abstractmethod
    def add(self, entry_type: EntryType, value: Mapping[str, Any], *, at: int) -> str:
        """Save an entry under a new random key, and return the key."""

    @abstractmethod
    def put(self, entry_type: EntryType, key: str, value: Mapping[str, Any], *, at: int) -> None:
        """Save an entry under a key, replacing what was there; not for audit lines."""

    @abstractmethod
    def get(self, entry_type: EntryType, key: str) -> Entry | None:
        """Return the entry of a key."""

    @abstractmethod
    def entries(
        self,
        entry_type: EntryType,
        *,
        since: int | None = None,
        until: int | None = None,
        newest: int | None = None,
    ) -> list[Entry]:
        """Return the entries of a kind with since ≤ at < until, in order of time, or only the `newest`."""

    @abstractmethod
    def remove(self, entry_type: EntryType, key: str) -> bool:
        """Delete an entry (a session that ends); return whether it existed. Not for audit lines."""

    @abstractmethod
    def forget(self, entry_type: EntryType, before: int) -> int:
        """Delete entries of a kind from before a time; return how many."""

    @abstractmethod
    def erase(self, user: str, pseudonym: str, *, also: Collection[str] = ()) -> ErasedEntries:
        """Delete the entries of a user (`user` in their value), and replace all other mentions of the name.

        Audit lines and thresholds stay, under the pseudonym: what was done remains known; who did it, and
        from which address, does not. In what is the user's own the name is replaced as a part of longer
        names, too. `also` are texts that stand for the user where they are a whole value, such as the name
        of a token. Nothing of it can be read from the store's files afterwards.
        """

    @abstractmethod
    def close(self) -> None:
        """Release files and connections."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def check_entry_type(entry_type: str, *, changes: bool = False) -> None:
    """Raise `UsageError` if the kind is unknown or its entries may not be changed."""
    if entry_type not in ENTRY_TYPES:
        raise UsageError(f"no such kind of entry: {entry_type!r}; choose from {', '.join(ENTRY_TYPES)}")
    if changes and entry_type in WRITTEN_ONCE:
        raise UsageError(f"an entry of kind {entry_type} is added, and neither changed nor removed")
