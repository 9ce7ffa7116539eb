"""The embedded store of people's entries: its own SQLite file in the home, readable by the owner only.

A file of its own has a writer's lock of its own: no write of observations, however long, is waited for.
"""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from forewarn.errors import StoreError
from forewarn.sharing import tighten
from forewarn.store.connections import Connections
from forewarn.store.database import connect, store_errors, use_log
from forewarn.store.database_files import shrink
from forewarn.store.filesystem import refuse_unfit
from forewarn.store.name_mentions import mention_pattern, without_user
from forewarn.store.people import (
    KEPT_FROM_ERASED,
    Entry,
    EntryType,
    ErasedEntries,
    PeopleStore,
    check_entry_type,
)
from forewarn.store.schema import migrate

FILE = "people.db"
_BUSY_SECONDS = 30.0


def people_files(home: Path) -> tuple[Path, ...]:
    """Return the files of people's entries, which a group that the home is shared with must not read."""
    return tuple(home / f"{FILE}{end}" for end in ("", "-wal", "-shm"))


def open_embedded_people(home: Path) -> EmbeddedPeople:
    """Open the file in a home, creating it if absent."""
    refuse_unfit(home)
    path = home / FILE
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        for file in people_files(home):
            tighten(file, 0o600)
    except OSError as error:
        raise StoreError(f"{path}: cannot be kept there: {error.strerror}") from None
    return EmbeddedPeople(path)


class EmbeddedPeople(PeopleStore):
    """Entries in one table; each call is a transaction."""

    def __init__(self, path: Path) -> None:
        def opened() -> sqlite3.Connection:
            return connect(path, read_only=False, busy_seconds=_BUSY_SECONDS)

        self._path = path
        self._connections = Connections(path, _BUSY_SECONDS, opened, lambda: None)
        try:
            with self._connections.borrow() as connection:
                migrate(connection, str(path), read_only=False, migrations=PEOPLE_MIGRATIONS)
                use_log(connection)
        except BaseException:
            self.close()
            raise

    def add(self, entry_type: EntryType, value: Mapping[str, Any], *, at: int) -> str:
        """Save an entry under a new key."""
        check_entry_type(entry_type)
        key = secrets.token_urlsafe(24)
        self._change("INSERT INTO entry VALUES (?, ?, ?, ?)", entry_type, key, at, json.dumps(dict(value)))
        return key

    def put(self, entry_type: EntryType, key: str, value: Mapping[str, Any], *, at: int) -> None:
        """Save an entry under a key, replacing what was there."""
        check_entry_type(entry_type, changes=True)
        text = json.dumps(dict(value))
        self._change("INSERT OR REPLACE INTO entry VALUES (?, ?, ?, ?)", entry_type, key, at, text)

    def get(self, entry_type: EntryType, key: str) -> Entry | None:
        """Return the entry of a key."""
        check_entry_type(entry_type)
        found = self._found("kind = ? AND key = ?", entry_type, key)
        return found[0] if found else None

    def entries(
        self,
        entry_type: EntryType,
        *,
        since: int | None = None,
        until: int | None = None,
        newest: int | None = None,
    ) -> list[Entry]:
        """Return the entries of a kind in a time range, in order of time."""
        check_entry_type(entry_type)
        asked = {"kind = ?": entry_type, "at >= ?": since, "at < ?": until}
        asked = {test: value for test, value in asked.items() if value is not None}
        found = self._found(
            f"{' AND '.join(asked)} ORDER BY at DESC, key DESC LIMIT ?",
            *asked.values(),
            -1 if newest is None else newest,
        )
        return found[::-1]

    def remove(self, entry_type: EntryType, key: str) -> bool:
        """Delete an entry; return whether it existed."""
        check_entry_type(entry_type, changes=True)
        return bool(self._change("DELETE FROM entry WHERE kind = ? AND key = ?", entry_type, key))

    def forget(self, entry_type: EntryType, before: int) -> int:
        """Delete entries of a kind from before a time; return how many."""
        check_entry_type(entry_type)
        return self._change("DELETE FROM entry WHERE kind = ? AND at < ?", entry_type, before)

    def erase(self, user: str, pseudonym: str, *, also: Collection[str] = ()) -> ErasedEntries:
        """Delete a user's entries, replace other mentions, and write the whole file again."""
        mention, deleted, renamed = mention_pattern(user), 0, 0
        with self._connections.borrow() as connection:
            connection.execute("BEGIN IMMEDIATE")
            rows = connection.execute("SELECT kind, key, at, value FROM entry").fetchall()
            for entry_type, key, at, text in rows:
                value = json.loads(text)
                new_value = without_user(value, user, pseudonym, also)
                # The key of what stays is that of a thing, or random.
                new_key = key if entry_type in KEPT_FROM_ERASED else mention.sub(pseudonym, key)
                if [new_key, new_value] == [key, value]:
                    continue
                connection.execute("DELETE FROM entry WHERE kind = ? AND key = ?", (entry_type, key))
                if value.get("user") == user and entry_type not in KEPT_FROM_ERASED:
                    deleted += 1
                    continue
                renamed += 1
                row = (entry_type, new_key, at, json.dumps(new_value))
                connection.execute("INSERT OR REPLACE INTO entry VALUES (?, ?, ?, ?)", row)
            connection.execute("COMMIT")
        with store_errors(self._path, _BUSY_SECONDS):
            shrink(self._path, wipe=True)
        return ErasedEntries(deleted, renamed)

    def close(self) -> None:
        """Close the file."""
        self._connections.close()

    def _change(self, statement: str, *values: object) -> int:
        with self._connections.borrow() as connection:  # it commits by itself
            return connection.execute(statement, values).rowcount

    def _found(self, which: str, *values: object) -> list[Entry]:
        with self._connections.borrow() as connection:
            rows = connection.execute(f"SELECT kind, key, at, value FROM entry WHERE {which}", values)
            return [Entry(entry_type, key, at, json.loads(value)) for entry_type, key, at, value in rows]


def _entries(connection: sqlite3.Connection) -> None:
    connection.execute(
        """
        CREATE TABLE entry (
            kind TEXT NOT NULL,
            key TEXT NOT NULL,
            at INTEGER NOT NULL,
            value TEXT NOT NULL,
            PRIMARY KEY (kind, key)
        )
        """
    )
    connection.execute("CREATE INDEX entry_at ON entry (kind, at, key)")


PEOPLE_MIGRATIONS = (_entries,)
