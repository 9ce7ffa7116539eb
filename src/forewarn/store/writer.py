"""The writing side of the embedded store: one transaction, staged until it is committed."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable

import polars as pl

from forewarn.errors import StoreError, UsageError
from forewarn.store.base import ASSESSMENT_KEY, ASSESSMENT_SCHEMA, ClusterFacts, StoreWriter, WriteCounts
from forewarn.store.segment_writer import SegmentWriter
from forewarn.store.sqlite_segments import SqliteSegments
from forewarn.store.text_compression import packed_text


class EmbeddedWriter(StoreWriter):
    """A writer into an open transaction, which its opener ends."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._open: sqlite3.Connection | None = connection
        (written,) = connection.execute("SELECT coalesce(max(last_written), 0) FROM segment").fetchone()
        self._observing = SegmentWriter(SqliteSegments(connection), written, self._tally)

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
        updated = [name for name in columns if name not in ASSESSMENT_KEY]
        rows = [
            {**row, "body": packed_text(row["body"])} for row in frame.select(columns).iter_rows(named=True)
        ]
        before = self._connection.total_changes
        self._connection.executemany(
            f"INSERT INTO assessment ({', '.join(columns)}) VALUES ({_named(columns)})"
            " ON CONFLICT DO NOTHING",
            rows,
        )
        new = self._connection.total_changes - before
        if new < frame.height:
            self._connection.executemany(
                f"UPDATE assessment SET {', '.join(f'{name} = :{name}' for name in updated)}"
                f" WHERE {' AND '.join(f'{name} = :{name}' for name in ASSESSMENT_KEY)}",
                rows,
            )
        return new

    def forget_assessments(self, cluster: str, before: int) -> int:
        """Delete old assessments; return how many."""
        return self._connection.execute(
            "DELETE FROM assessment WHERE made_at < ? AND cluster = ?", (before, cluster)
        ).rowcount


def _named(columns: Iterable[str]) -> str:
    return ", ".join(f":{name}" for name in columns)
