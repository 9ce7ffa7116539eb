"""The embedded store: one SQLite file with a write-ahead log, observations in it as columnar segments.

Why this and not something else, with figures: docs/decisions/0001-embedded-store.md.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import polars as pl

from forewarn.errors import StoreError
from forewarn.job.columns import KEYS
from forewarn.store.base import PREDICTION_KEY, PREDICTION_SCHEMA, ClusterFacts, Store, View
from forewarn.store.database import connect, told, use_log
from forewarn.store.filesystem import MOUNTS, refuse_network
from forewarn.store.scanning import Scan, observations
from forewarn.store.schema import migrate
from forewarn.store.segments import TIME
from forewarn.store.writer import EmbeddedWriter

FILE = "forewarn.db"


def open_store(
    home: Path,
    *,
    read_only: bool = False,
    known_delay: int = 0,
    busy_seconds: float = 30,
    mounts: str | None = None,
) -> EmbeddedStore:
    """The store in a folder, made if it is not there.

    `known_delay` is how long after its end the outcome of a job that nobody saw end counts as known.
    A writer that finds another one at work waits `busy_seconds`. `mounts` is the text of
    ``/proc/self/mountinfo``.
    """
    if mounts is None:
        mounts = MOUNTS.read_text(errors="replace") if MOUNTS.exists() else ""
    refuse_network(home, mounts)
    path = home / FILE
    try:
        if read_only:
            if not path.exists():
                raise StoreError(f"{home}: no store there; forewarn ingest makes one")
        else:
            home.mkdir(parents=True, exist_ok=True)
    except PermissionError:
        raise StoreError(
            f"{home}: no permission to use this folder; set FOREWARN_HOME to one of yours"
        ) from None
    except OSError as error:
        raise StoreError(f"{home}: cannot hold the store: {error.strerror}") from None
    return EmbeddedStore(path, read_only=read_only, known_delay=known_delay, busy_seconds=busy_seconds)


class EmbeddedStore(Store):
    """A store in one file of a local disk, for many processes and threads of one machine.

    Each scan and each write has a connection of its own, and so its own snapshot; small reads share one
    connection a thread. Open it after a fork, not before.
    """

    def __init__(self, path: Path, *, read_only: bool, known_delay: int, busy_seconds: float) -> None:
        self.path = path
        self._read_only = read_only
        self._known_delay = known_delay
        self._busy_seconds = busy_seconds
        self._of_thread = threading.local()
        self._open: list[sqlite3.Connection] = []
        with told(path, busy_seconds):
            connection = self._connection()
            migrate(connection, str(path), read_only=read_only)
            if not read_only:
                use_log(connection)

    def _connect(self) -> sqlite3.Connection:
        return connect(self.path, read_only=self._read_only, busy_seconds=self._busy_seconds)

    def _connection(self) -> sqlite3.Connection:
        """This thread's connection for small reads."""
        found: sqlite3.Connection | None = getattr(self._of_thread, "connection", None)
        if found is None:
            found = self._of_thread.connection = self._connect()
            self._open.append(found)
        return found

    def _all(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        with told(self.path, self._busy_seconds):
            return self._connection().execute(query, values).fetchall()

    @contextmanager
    def writing(self) -> Iterator[EmbeddedWriter]:
        """One all-or-nothing write."""
        if self._read_only:
            raise StoreError(f"{self.path}: opened for reading only")
        with told(self.path, self._busy_seconds), closing(self._connect()) as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                writer = EmbeddedWriter(connection)
                yield writer
                writer.finish()
                connection.execute("COMMIT")
            finally:
                # After some errors (a full disk) SQLite has rolled back already.
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    @contextmanager
    def _snapshot(self) -> Iterator[sqlite3.Connection]:
        """A connection that sees one state of the store throughout."""
        with told(self.path, self._busy_seconds), closing(self._connect()) as connection:
            connection.execute("BEGIN")
            yield connection

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
        where: pl.Expr | None = None,
        rows: int = 1_000_000,
    ) -> Iterator[pl.DataFrame]:
        """One row per record: see the contract."""
        scan = Scan(
            kind=kind,
            view=view,
            cluster=cluster,
            since=since,
            until=until,
            job_ids=job_ids,
            columns=columns,
            where=where,
            rows=rows,
            known_delay=self._known_delay,
        )
        return self._frames(scan)

    def _frames(self, scan: Scan) -> Iterator[pl.DataFrame]:
        with self._snapshot() as connection:
            yield from scan.frames(connection)

    def observations(self, kind: str, key: Mapping[str, Any]) -> pl.DataFrame:
        """Every observation whose columns equal `key`, in the order they were seen."""
        with self._snapshot() as connection:
            return observations(connection, kind, key)

    def count(self, kind: str = "job", *, cluster: str | None = None) -> int:
        """How many records there are: jobs and usage samples are counted as they are written."""
        if kind in KEYS and TIME[kind] not in KEYS[kind]:
            return sum(frame.height for frame in self.scan(kind, cluster=cluster, columns=KEYS[kind]))
        query = "SELECT coalesce(sum(records), 0) FROM tally WHERE kind = ? AND ? IN (cluster, '')"
        ((count,),) = self._all(query, (kind, cluster or ""))
        return int(count)

    def clusters(self) -> dict[str, ClusterFacts]:
        """The clusters that have been described."""
        found = self._all("SELECT name, timezone, fields FROM cluster ORDER BY name")
        return {name: ClusterFacts(timezone, json.loads(fields)) for name, timezone, fields in found}

    def cursor(self, name: str) -> str | None:
        """How far a reader had come."""
        found = self._all("SELECT value FROM cursor WHERE name = ?", (name,))
        return found[0][0] if found else None

    def get_state(self, cluster: str, space: str, keys: Sequence[int]) -> dict[int, bytes]:
        """The online state of these keys, those that have one."""
        query = f"{_STATE} AND key IN (SELECT value FROM json_each(?))"
        return dict(self._all(query, (cluster, space, json.dumps([int(key) for key in keys]))))

    def all_state(self, cluster: str, space: str) -> Iterator[tuple[int, bytes]]:
        """All online state of a space, in order of key."""
        with self._snapshot() as connection:
            yield from connection.execute(f"{_STATE} ORDER BY key", (cluster, space))

    def predictions(
        self, *, cluster: str | None = None, since: int | None = None, until: int | None = None
    ) -> pl.DataFrame:
        """Predictions made in [since, until), in that order."""
        found = self._all(
            f"SELECT {', '.join(PREDICTION_SCHEMA)} FROM prediction"
            " WHERE made_at >= coalesce(?, made_at) AND made_at < coalesce(?, made_at + 1)"
            " AND cluster = coalesce(?, cluster)"
            f" ORDER BY made_at, {', '.join(PREDICTION_KEY)}",
            (since, until, cluster),
        )
        return pl.DataFrame(found, schema=dict(PREDICTION_SCHEMA), orient="row")

    def close(self) -> None:
        """Let go of files and connections."""
        while self._open:
            self._open.pop().close()
        self._of_thread = threading.local()


_STATE = "SELECT key, value FROM state WHERE space = (SELECT id FROM space WHERE cluster = ? AND name = ?)"
