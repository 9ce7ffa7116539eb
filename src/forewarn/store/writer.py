"""The writing side of the embedded store: one transaction, staged until it is committed."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import polars as pl

from forewarn.errors import StoreError, UsageError
from forewarn.store.barred_users import BarredUsers, digest, load_barred, new_key, no_key
from forewarn.store.base import ASSESSMENT_KEY, ASSESSMENT_SCHEMA, ClusterFacts, StoreWriter, WriteCounts
from forewarn.store.segment_writer import SegmentWriter
from forewarn.store.sqlite_segments import SqliteSegments
from forewarn.store.text_compression import packed_text

ERASURE_KEY = "erasure.key"  # beside the store, for its owner only
ERASURE = "erasure"  # the row of `removal` that counts erasures; no kind of record has this name
# The numbers of observations that there are and that there were.
NUMBERS = " UNION ALL ".join(
    f"SELECT kind, cluster, last_written FROM {table}" for table in ("segment", "removal")
)


class EmbeddedWriter(StoreWriter):
    """A writer into an open transaction, which its opener ends."""

    def __init__(self, connection: sqlite3.Connection, home: Path) -> None:
        self._open: sqlite3.Connection | None = connection
        self._key_file = home / ERASURE_KEY
        (written,) = connection.execute(f"SELECT max(last_written) FROM ({NUMBERS})").fetchone()
        self._observing = SegmentWriter(
            SqliteSegments(connection),
            written or 0,
            tally=self._tally,
            removed=self._note_removal,
            barred=self._barred,
        )

    def finish(self) -> None:
        """Complete the write so that the transaction can be committed."""
        self._observing.finish()

    def end(self) -> None:
        """Refuse further writes, since the connection is returned to the pool."""
        self._open = None

    @property
    def _connection(self) -> sqlite3.Connection:
        if self._open is None:
            raise StoreError("this write has ended: begin another one with store.writing()")
        return self._open

    def observe(self, kind: str, frame: pl.DataFrame, *, file: str | None = None) -> WriteCounts:
        """Add observations: see the contract."""
        assert self._connection  # it has not ended
        return self._observing.observe(kind, frame, file=file)

    def forget(self, kind: str, keys: pl.DataFrame) -> int:
        """Delete every observation of some records."""
        assert self._connection  # it has not ended
        return self._observing.forget(kind, keys)

    def thin(self, kind: str, cluster: str, before: int) -> int:
        """Delete observations seen before a time on which no current row rests."""
        assert self._connection  # it has not ended
        return self._observing.thin(kind, cluster, before)

    def bar_user(self, user: str, until: int) -> None:
        """Refuse records of a user from before a time."""
        if not self._key_file.exists():
            if self._connection.execute("SELECT count(*) FROM barred").fetchone() != (0,):
                raise no_key(self._key_file)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with suppress(FileExistsError), os.fdopen(os.open(self._key_file, flags, 0o600), "wb") as file:
                file.write(new_key())
                file.flush()
                os.fsync(file.fileno())
        self._connection.execute(
            "INSERT INTO barred VALUES (?, ?) ON CONFLICT DO UPDATE SET until = max(until, excluded.until)",
            (digest(self._key_file.read_bytes(), user), until),
        )
        self._note_removal(ERASURE, "", 0)
        self._observing.bar_again()

    def _barred(self) -> BarredUsers:
        return load_barred(self._connection.execute("SELECT digest, until FROM barred"), self._key_file)

    def _note_removal(self, kind: str, cluster: str, newest: int) -> None:
        self._connection.execute(
            "INSERT INTO removal VALUES (?, ?, 1, ?) ON CONFLICT DO UPDATE"
            " SET times = times + 1, last_written = max(last_written, excluded.last_written)",
            (kind, cluster, newest),
        )

    def _tally(self, kind: str, cluster: str, new: int) -> None:
        self._connection.execute(
            "INSERT INTO tally VALUES (?, ?, ?)"
            " ON CONFLICT DO UPDATE SET records = records + excluded.records",
            (kind, cluster, new),
        )

    def describe_cluster(self, cluster: str, facts: ClusterFacts) -> None:
        """Replace the facts of a cluster."""
        self._connection.execute(
            "INSERT OR REPLACE INTO cluster VALUES (?, ?, ?)",
            (cluster, facts.timezone, json.dumps(dict(facts.fields), sort_keys=True)),
        )

    def set_cursor(self, name: str, value: str) -> None:
        """Save how far a reader of a source has come."""
        self._connection.execute("INSERT OR REPLACE INTO cursor VALUES (?, ?)", (name, value))

    def drop_cursor(self, name: str) -> None:
        """Delete a cursor, if there is one."""
        self._connection.execute("DELETE FROM cursor WHERE name = ?", (name,))

    def put_state(self, cluster: str, space: str, rows: Iterable[tuple[int, bytes]]) -> None:
        """Set rows of the online state by key within a space."""
        self._connection.execute(
            "INSERT OR IGNORE INTO space (cluster, name) VALUES (?, ?)", (cluster, space)
        )
        (number,) = self._connection.execute(
            "SELECT id FROM space WHERE cluster = ? AND name = ?", (cluster, space)
        ).fetchone()
        self._connection.executemany(
            "INSERT OR REPLACE INTO state VALUES (?, ?, ?)", ((number, key, value) for key, value in rows)
        )

    def drop_state(self, cluster: str, space: str, keys: Iterable[int] | None = None) -> None:
        """Delete rows of the online state: those of some keys, or the whole space."""
        of_space = "DELETE FROM state WHERE space = (SELECT id FROM space WHERE cluster = ? AND name = ?)"
        if keys is None:
            self._connection.execute(of_space, (cluster, space))
        else:
            self._connection.executemany(f"{of_space} AND key = ?", ((cluster, space, key) for key in keys))

    def keep_assessments(self, frame: pl.DataFrame) -> int:
        """Save assessments; return how many were new."""
        columns = list(ASSESSMENT_SCHEMA)
        for name in ASSESSMENT_KEY:
            if frame[name].null_count():
                raise UsageError(f"an assessment without {name} cannot be stored")
        frame = self._barred().without_assessments(frame)
        keys = frame.select(ASSESSMENT_KEY).unique()
        replaced = self.drop_assessments(keys)  # what takes their place has new numbers
        self._connection.executemany(
            f"INSERT OR REPLACE INTO assessment ({', '.join(columns)}) VALUES ({_named(columns)})",
            (
                {**row, "body": packed_text(row["body"])}
                for row in frame.select(columns).iter_rows(named=True)
            ),
        )
        return keys.height - replaced

    def forget_assessments(self, cluster: str, before: int) -> int:
        """Delete old assessments; return how many."""
        return self._connection.execute(
            "DELETE FROM assessment WHERE made_at < ? AND cluster = ?", (before, cluster)
        ).rowcount

    def drop_assessments(self, keys: pl.DataFrame) -> int:
        """Delete assessments by their key; return how many there were."""
        before = self._connection.total_changes
        self._connection.executemany(
            f"DELETE FROM assessment WHERE {' AND '.join(f'{name} = ?' for name in ASSESSMENT_KEY)}",
            keys.select(ASSESSMENT_KEY).iter_rows(),
        )
        return self._connection.total_changes - before


def _named(columns: Iterable[str]) -> str:
    return ", ".join(f":{name}" for name in columns)
