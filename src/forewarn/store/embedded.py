"""The embedded store: one SQLite file with a write-ahead log, observations in it as columnar segments.

Why this and not something else, with figures: docs/decisions/0001-embedded-store.md.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import polars as pl

from forewarn.errors import StoreError
from forewarn.job.columns import KEYS
from forewarn.store.barred_users import BarredUsers, load_barred
from forewarn.store.base import (
    ASSESSMENT_KEY,
    ASSESSMENT_SCHEMA,
    NUMBERED_SCHEMA,
    ClusterFacts,
    Store,
    View,
)
from forewarn.store.claims import FileClaim, claim
from forewarn.store.connections import Connections
from forewarn.store.database import connect, leave_readable, make_private, store_errors, use_log
from forewarn.store.database_files import shrink
from forewarn.store.filesystem import refuse_unfit
from forewarn.store.filters import Filter
from forewarn.store.read_only_file import ReadOnlyFile, find_way
from forewarn.store.scanning import Scan, changes, observations
from forewarn.store.schema import migrate
from forewarn.store.segments import TIME, check_kind
from forewarn.store.sqlite_segments import SqliteSegments
from forewarn.store.text_compression import unpacked_text
from forewarn.store.writer import ERASURE, ERASURE_KEY, NUMBERS, EmbeddedWriter

FILE = "forewarn.db"


def open_embedded(
    home: Path,
    *,
    read_only: bool = False,
    known_delay: int = 0,
    busy_seconds: float = 30,
    mounts: str | None = None,
) -> EmbeddedStore:
    """Open the store in a folder, creating it if absent.

    `known_delay` is how long after its end the outcome of a job that nobody saw end counts as known.
    A writer that finds another one at work waits `busy_seconds`. `mounts` is the text of
    ``/proc/self/mountinfo``.
    """
    refuse_unfit(home, mounts)
    path = home / FILE
    try:
        if read_only:
            if not path.exists():
                raise StoreError(f"{home}: no store in this folder; `forewarn ingest` creates one")
        else:
            home.mkdir(mode=0o700, parents=True, exist_ok=True)
            make_private(path)
    except PermissionError:
        raise StoreError(
            f"{home}: no permission to use this folder; set FOREWARN_HOME to one of yours"
        ) from None
    except OSError as error:
        raise StoreError(f"{home}: cannot hold the store: {error.strerror}") from None
    return EmbeddedStore(path, read_only=read_only, known_delay=known_delay, busy_seconds=busy_seconds)


class EmbeddedStore(Store):
    """A store in one file of a local disk, for many processes and threads of one machine.

    Each read and each write borrows a connection, and so has a state of the store of its own. Open it
    after a fork, not before.
    """

    def __init__(self, path: Path, *, read_only: bool, known_delay: int, busy_seconds: float) -> None:
        self.path = path
        self._read_only = read_only
        self._known_delay = known_delay
        self._busy_seconds = busy_seconds
        with store_errors(path, busy_seconds):
            self._readable = find_way(path, busy_seconds) if read_only else ReadOnlyFile(path)
        self._connections = Connections(path, busy_seconds, self._connected, self._let_go)
        try:
            with self._connection() as connection:
                migrate(connection, str(path), read_only=read_only)
                if not read_only:
                    use_log(connection)
        except BaseException:
            self.close()
            raise

    def _connected(self) -> sqlite3.Connection:
        return connect(
            self._readable.file,
            read_only=self._read_only,
            busy_seconds=self._busy_seconds,
            is_immutable=self._readable.is_immutable,
        )

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """Borrow a connection outside of a transaction."""
        with self._connections.borrow() as connection:
            yield connection
            self._readable.check_unchanged()

    @contextmanager
    def _snapshot(self) -> Iterator[sqlite3.Connection]:
        """Borrow a connection that sees one state of the store throughout."""
        with self._connection() as connection:
            connection.execute("BEGIN")
            yield connection

    @property
    def may_write(self) -> bool:
        """Whether the store was opened for writing."""
        return not self._read_only

    @property
    def allows_many_writers(self) -> bool:
        """False: one process writes for long; SQLite lets others take turns."""
        return False

    def claim(self, name: str) -> FileClaim | None:
        """Claim a name for this process, among the processes that use this home."""
        self._check_may_write()
        return claim(self.path.parent, name)

    def _check_may_write(self) -> None:
        if self._read_only:
            raise StoreError(f"{self.path}: opened for reading only")

    def copy_to(self, file: Path) -> None:
        """Copy the whole store, as it is at one moment, to a new file."""
        with self._connection() as connection, closing(sqlite3.connect(file)) as target:
            connection.backup(target)

    def reclaim(self, *, wipe: bool = False) -> int:
        """Shrink the file; with `wipe` the whole file is written again."""
        self._check_may_write()
        with store_errors(self.path, self._busy_seconds):
            return shrink(self.path, wipe=wipe, busy_seconds=self._busy_seconds)

    def _all(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        with self._connection() as connection:
            return connection.execute(query, values).fetchall()

    @contextmanager
    def writing(self) -> Iterator[EmbeddedWriter]:
        """Begin a transaction and commit it when the block ends."""
        self._check_may_write()
        with self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            writer = EmbeddedWriter(connection, self.path.parent)
            try:
                yield writer
                writer.finish()
                connection.execute("COMMIT")
            finally:
                writer.end()

    def scan(
        self,
        kind: str = "job",
        *,
        view: View = "now",
        cluster: str | None = None,
        since: int | None = None,
        until: int | None = None,
        job_ids: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        where: Filter | None = None,
        rows: int = 1_000_000,
    ) -> Iterator[pl.DataFrame]:
        """Yield one row per record: see the contract."""
        scan = Scan(
            kind=kind,
            views={view: columns},
            cluster=cluster,
            since=since,
            until=until,
            job_ids=job_ids,
            where=where,
            rows=rows,
            known_delay=self._known_delay,
        )
        return (frames[view] for frames in self._frames(scan))

    def scan_views(
        self, columns: Mapping[View, Sequence[str]], *, cluster: str | None = None, rows: int = 1_000_000
    ) -> Iterator[Mapping[View, pl.DataFrame]]:
        """Scan jobs through several views in one pass: see the contract."""
        scan = Scan(kind="job", views=columns, cluster=cluster, rows=rows, known_delay=self._known_delay)
        return self._frames(scan)

    def _frames(self, scan: Scan) -> Iterator[Mapping[View, pl.DataFrame]]:
        with self._snapshot() as connection:
            yield from scan.frames(SqliteSegments(connection))

    def observations(self, kind: str, key: Mapping[str, Any]) -> pl.DataFrame:
        """Return every observation whose columns equal `key`, in the order they were seen."""
        with self._snapshot() as connection:
            return observations(SqliteSegments(connection), kind, key)

    def count(self, kind: str = "job", *, cluster: str | None = None) -> int:
        """Return the number of records; jobs and usage samples are counted as they are written."""
        check_kind(kind)
        if TIME[kind] not in KEYS[kind]:
            return sum(frame.height for frame in self.scan(kind, cluster=cluster, columns=KEYS[kind]))
        query = "SELECT coalesce(sum(records), 0) FROM tally WHERE kind = ? AND ? IN (cluster, '')"
        ((count,),) = self._all(query, (kind, cluster or ""))
        return int(count)

    def revision(self, kind: str = "job", *, cluster: str | None = None) -> int:
        """Return the number of the newest observation."""
        check_kind(kind)
        query = (
            f"SELECT coalesce(max(last_written), 0) FROM ({NUMBERS}) WHERE kind = ? AND ? IN (cluster, '')"
        )
        ((newest,),) = self._all(query, (kind, cluster or ""))
        return int(newest)

    def changes(self, kind: str = "job", *, cluster: str, since: int) -> tuple[pl.DataFrame, int]:
        """Return the keys of records observed after a revision, and the newest revision."""
        check_kind(kind)
        with self._snapshot() as connection:
            return changes(SqliteSegments(connection), kind, cluster, since)

    def removals(self, kind: str = "job", *, cluster: str) -> int:
        """Return how often observations were deleted."""
        check_kind(kind)
        found = self._all("SELECT times FROM removal WHERE kind = ? AND cluster = ?", (kind, cluster))
        return int(found[0][0]) if found else 0

    def barred_users(self) -> int:
        """Count the users whose earlier records are refused."""
        ((count,),) = self._all("SELECT count(*) FROM barred")
        return int(count)

    def erasures(self) -> int:
        """Return how often `bar_user` was called."""
        found = self._all("SELECT times FROM removal WHERE kind = ?", (ERASURE,))
        return int(found[0][0]) if found else 0

    def load_barred_users(self) -> BarredUsers:
        """Return what recognises records of erased users."""
        return load_barred(self._all("SELECT digest, until FROM barred"), self.path.parent / ERASURE_KEY)

    def cursors(self) -> dict[str, str]:
        """Return all cursors by name."""
        return dict(self._all("SELECT name, value FROM cursor ORDER BY name"))

    def clusters(self) -> dict[str, ClusterFacts]:
        """Return the facts of each described cluster."""
        found = self._all("SELECT name, timezone, fields FROM cluster ORDER BY name")
        return {name: ClusterFacts(timezone, json.loads(fields)) for name, timezone, fields in found}

    def cursor(self, name: str) -> str | None:
        """Return how far a reader of a source has come."""
        found = self._all("SELECT value FROM cursor WHERE name = ?", (name,))
        return found[0][0] if found else None

    def get_state(self, cluster: str, space: str, keys: Sequence[int]) -> dict[int, bytes]:
        """Return the rows of these keys; keys without a row are left out."""
        query = f"{_STATE} AND key IN (SELECT value FROM json_each(?))"
        return dict(self._all(query, (cluster, space, json.dumps([int(key) for key in keys]))))

    def all_state(self, cluster: str, space: str) -> Iterator[tuple[int, bytes]]:
        """Return all rows of a space, in order of key."""
        with self._snapshot() as connection:
            yield from connection.execute(f"{_STATE} ORDER BY key", (cluster, space))

    def assessments(
        self,
        *,
        cluster: str | None = None,
        job_id: str | None = None,
        since: int | None = None,
        until: int | None = None,
        columns: Sequence[str] | None = None,
    ) -> pl.DataFrame:
        """Return assessments made in [since, until), in order of time: all columns, or `columns`."""
        schema = {name: ASSESSMENT_SCHEMA[name] for name in columns or ASSESSMENT_SCHEMA}
        asked = {"cluster = ?": cluster, "job_id = ?": job_id, "made_at >= ?": since, "made_at < ?": until}
        asked = {test: value for test, value in asked.items() if value is not None}
        found = self._all(
            f"SELECT {', '.join(schema)} FROM assessment"
            f" WHERE {' AND '.join(('TRUE', *asked))} ORDER BY made_at, {', '.join(ASSESSMENT_KEY)}",
            (*asked.values(),),
        )
        if "body" in schema:
            place = list(schema).index("body")
            found = [(*row[:place], unpacked_text(row[place]), *row[place + 1 :]) for row in found]
        return pl.DataFrame(found, schema=schema, orient="row")

    def newest_assessment(self) -> int:
        """Return the number of the assessment saved last; 0 if there never was one."""
        rows = self._all("SELECT seq FROM sqlite_sequence WHERE name = 'assessment'", ())
        return int(rows[0][0]) if rows else 0

    def assessments_after(self, number: int, *, until: int, most: int) -> pl.DataFrame:
        """Return assessments with numbers after `number` up to `until`, in order."""
        rows = self._all(
            f"SELECT {', '.join(NUMBERED_SCHEMA)} FROM assessment WHERE number > ? AND number <= ?"
            " ORDER BY number LIMIT ?",
            (number, until, most),
        )
        found = [(*row[:-1], unpacked_text(row[-1])) for row in rows]
        return pl.DataFrame(found, schema=dict(NUMBERED_SCHEMA), orient="row")

    def close(self) -> None:
        """Release files and connections; connections of scans in progress are closed when these end."""
        self._connections.close()

    def _let_go(self) -> None:
        """Clean up after the last connection is closed, when SQLite has removed the log beside the file."""
        self._readable.close()
        if not self._read_only:
            leave_readable(self.path)


_STATE = "SELECT key, value FROM state WHERE space = (SELECT id FROM space WHERE cluster = ? AND name = ?)"
