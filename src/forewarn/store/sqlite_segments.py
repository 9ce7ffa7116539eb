"""Segments of the embedded store: one row each, with its facts and its data."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterable
from dataclasses import replace

from forewarn.errors import StoreError
from forewarn.job.columns import SCHEMAS
from forewarn.store.segments import Segment, Segments

_COLUMNS = ", ".join(Segment.__slots__)
_FACTS = Segment.__slots__[1:]  # all but the id, which SQLite gives


class SqliteSegments(Segments):
    """Segments as a connection sees them: one state of the store within a transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def listed(self, kind: str, cluster: str | None = None) -> list[Segment]:
        """Return the segments of a kind."""
        query = f"SELECT {_COLUMNS} FROM segment WHERE kind = ? AND ? IN (cluster, '') ORDER BY id"
        return [Segment(*row) for row in self._connection.execute(query, (kind, cluster or ""))]

    def loaded(self, segment: Segment) -> bytes:
        """Return the data of a segment as it was put."""
        query = "SELECT data, checksum FROM segment WHERE id = ?"
        data: bytes
        data, checksum = self._connection.execute(query, (segment.id,)).fetchone()
        if zlib.crc32(data) != checksum:
            raise StoreError(
                f"segment {segment.id} of the store ({segment.rows:,} observations of {segment.cluster}) is "
                "damaged; restore the store from a backup, or move it away and ingest again"
            )
        return data

    def put(self, segment: Segment, data: bytes) -> Segment:
        """Insert a segment."""
        facts = [getattr(segment, name) for name in _FACTS]
        cursor = self._connection.execute(
            f"INSERT INTO segment ({', '.join(_FACTS)}, checksum, data)"
            f" VALUES ({', '.join('?' * len(_FACTS))}, ?, ?)",
            (*facts, zlib.crc32(data), data),
        )
        assert cursor.lastrowid is not None
        return replace(segment, id=cursor.lastrowid)

    def drop(self, segments: Iterable[Segment]) -> None:
        """Delete segments."""
        ids = [(segment.id,) for segment in segments]
        self._connection.executemany("DELETE FROM segment WHERE id = ?", ids)


def check_segments(connection: sqlite3.Connection) -> None:
    """Raise `StoreError` if the data of a segment is not what was written."""
    stored = SqliteSegments(connection)
    for kind in SCHEMAS:
        for segment in stored.listed(kind):
            stored.loaded(segment)
