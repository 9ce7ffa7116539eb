"""The tables of the embedded store, and the migrations from each older version.

The version is SQLite's own `user_version`; `application_id` says that the file is ours. A change of
the tables is one more function at the end of `MIGRATIONS`: a new store walks all of them, an older one
those it lacks, in one transaction. What a segment's data holds needs no step here: columns that a
record got later are read as nulls (`segments.py`).
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Callable, Sequence

from forewarn.errors import OldStoreError, StoreError
from forewarn.store.text_compression import packed_text, unpacked_text

APPLICATION_ID = 0x46_57_72_6E  # "FWrn"


def _observations(connection: sqlite3.Connection) -> None:
    # The data comes last in its row, so that reading the others does not walk through it.
    connection.execute(
        """
        CREATE TABLE segment (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            kind TEXT NOT NULL,
            cluster TEXT NOT NULL,
            rows INTEGER NOT NULL,
            first_time INTEGER NOT NULL,
            last_time INTEGER NOT NULL,
            first_number INTEGER,
            last_number INTEGER,
            last_written INTEGER NOT NULL,
            checksum INTEGER NOT NULL,
            data BLOB NOT NULL
        )
        """
    )
    connection.execute(
        """
        CREATE TABLE tally (
            kind TEXT NOT NULL,
            cluster TEXT NOT NULL,
            records INTEGER NOT NULL,
            PRIMARY KEY (kind, cluster)
        ) WITHOUT ROWID
        """
    )


def _small_things(connection: sqlite3.Connection) -> None:
    connection.execute(
        """
        CREATE TABLE cluster (
            name TEXT PRIMARY KEY,
            timezone TEXT NOT NULL,
            fields TEXT NOT NULL
        ) WITHOUT ROWID
        """
    )
    connection.execute("CREATE TABLE cursor (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID")
    connection.execute(
        """
        CREATE TABLE space (
            id INTEGER PRIMARY KEY,
            cluster TEXT NOT NULL,
            name TEXT NOT NULL,
            UNIQUE (cluster, name)
        )
        """
    )
    connection.execute(
        """
        CREATE TABLE state (
            space INTEGER NOT NULL REFERENCES space,
            key INTEGER NOT NULL,
            value BLOB NOT NULL,
            PRIMARY KEY (space, key)
        ) WITHOUT ROWID
        """
    )


def _predictions(connection: sqlite3.Connection) -> None:
    connection.execute(
        """
        CREATE TABLE prediction (
            cluster TEXT NOT NULL,
            job_id TEXT NOT NULL,
            submit INTEGER NOT NULL,
            phase TEXT NOT NULL,
            model TEXT NOT NULL,
            made_at INTEGER NOT NULL,
            probability REAL,
            threshold REAL,
            detail TEXT,
            PRIMARY KEY (cluster, job_id, submit, phase, model, made_at)
        ) WITHOUT ROWID
        """
    )
    connection.execute("CREATE INDEX prediction_made_at ON prediction (made_at)")


def _assessments(connection: sqlite3.Connection) -> None:
    # A body is too large for a table without row ids; it comes last, so that others are read without it.
    connection.execute(
        """
        CREATE TABLE assessment (
            cluster TEXT NOT NULL,
            job_id TEXT NOT NULL,
            submit INTEGER NOT NULL,
            phase TEXT NOT NULL,
            model TEXT NOT NULL,
            made_at INTEGER NOT NULL,
            probability REAL,
            threshold REAL,
            verdict TEXT,
            hours_at_risk REAL,
            body BLOB,
            UNIQUE (cluster, job_id, submit, phase, model, made_at)
        )
        """
    )
    connection.execute("CREATE INDEX assessment_made_at ON assessment (made_at)")
    connection.create_function("packed_text", 1, packed_text, deterministic=True)
    connection.execute(
        """
        INSERT INTO assessment
        SELECT cluster, job_id, submit, phase, model, made_at, probability, threshold,
            replace(CASE WHEN json_valid(detail) THEN json_extract(detail, '$.verdict') END, ' ', '_'),
            NULL, packed_text(detail)
        FROM prediction ORDER BY made_at
        """
    )
    connection.execute("DROP TABLE prediction")


def _causes(connection: sqlite3.Connection) -> None:
    # A list of jobs filters by the cause; to read it from every body would take seconds. The body stays last.
    connection.execute("ALTER TABLE assessment RENAME TO assessment_before")
    connection.execute(
        """
        CREATE TABLE assessment (
            cluster TEXT NOT NULL,
            job_id TEXT NOT NULL,
            submit INTEGER NOT NULL,
            phase TEXT NOT NULL,
            model TEXT NOT NULL,
            made_at INTEGER NOT NULL,
            probability REAL,
            threshold REAL,
            verdict TEXT,
            hours_at_risk REAL,
            cause TEXT,
            body BLOB,
            UNIQUE (cluster, job_id, submit, phase, model, made_at)
        )
        """
    )
    connection.create_function("body_cause", 1, _body_cause, deterministic=True)
    connection.execute(
        """
        INSERT INTO assessment
        SELECT cluster, job_id, submit, phase, model, made_at, probability, threshold, verdict, hours_at_risk,
            body_cause(body), body
        FROM assessment_before ORDER BY made_at
        """
    )
    connection.execute("DROP TABLE assessment_before")
    connection.execute("CREATE INDEX assessment_made_at ON assessment (made_at)")


def _body_cause(body: bytes | None) -> str | None:
    """Read the most likely outcome of a failure from the JSON of an assessment; None if it names none."""
    try:
        causes = json.loads(unpacked_text(body) or "null")["failure"]["causes"]
        shares: dict[str, float] = {}
        for cause in causes:
            shares[cause["outcome"]] = shares.get(cause["outcome"], 0.0) + cause["probability"]
        return max(shares, key=lambda outcome: shares[outcome])
    except (ValueError, KeyError, TypeError, zlib.error):
        return None


def _removals(connection: sqlite3.Connection) -> None:
    # The number of the newest observation that was deleted: numbers are not given twice.
    connection.execute(
        """
        CREATE TABLE removal (
            kind TEXT NOT NULL,
            cluster TEXT NOT NULL,
            times INTEGER NOT NULL,
            last_written INTEGER NOT NULL,
            PRIMARY KEY (kind, cluster)
        ) WITHOUT ROWID
        """
    )
    connection.execute("CREATE TABLE barred (digest BLOB PRIMARY KEY, until INTEGER NOT NULL) WITHOUT ROWID")


def _numbers(connection: sqlite3.Connection) -> None:
    # Readers of events continue after a number, so none is given twice, even if the newest row is deleted.
    connection.execute("ALTER TABLE assessment RENAME TO assessment_before")
    connection.execute(
        """
        CREATE TABLE assessment (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            cluster TEXT NOT NULL,
            job_id TEXT NOT NULL,
            submit INTEGER NOT NULL,
            phase TEXT NOT NULL,
            model TEXT NOT NULL,
            made_at INTEGER NOT NULL,
            probability REAL,
            threshold REAL,
            verdict TEXT,
            hours_at_risk REAL,
            cause TEXT,
            body BLOB,
            UNIQUE (cluster, job_id, submit, phase, model, made_at)
        )
        """
    )
    columns = (
        "cluster, job_id, submit, phase, model, made_at, probability, threshold, verdict, hours_at_risk,"
        " cause, body"
    )
    connection.execute(
        f"INSERT INTO assessment ({columns}) SELECT {columns} FROM assessment_before ORDER BY made_at"
    )
    connection.execute("DROP TABLE assessment_before")
    connection.execute("CREATE INDEX assessment_made_at ON assessment (made_at)")


Migration = Callable[[sqlite3.Connection], None]
MIGRATIONS: tuple[Migration, ...] = (
    _observations,
    _small_things,
    _predictions,
    _assessments,
    _causes,
    _removals,
    _numbers,
)


def migrate(
    connection: sqlite3.Connection,
    where: str,
    *,
    read_only: bool,
    migrations: Sequence[Migration] = MIGRATIONS,
) -> None:
    """Migrate the store to this program's version, or raise an error that says why it cannot."""
    connection.execute("BEGIN")  # one state of the file: another process may be making the store right now
    try:
        version = store_version(connection, where, len(migrations))
    finally:
        connection.execute("ROLLBACK")
    if version == len(migrations):
        return
    if read_only:
        if version == 0:
            raise StoreError(f"{where}: the store is empty: ingest something first")
        raise OldStoreError(
            f"{where}: the store is of version {version}, this Forewarn needs {len(migrations)} and may only "
            "read it; any command that writes (forewarn ingest) brings it up to date"
        )
    if version == 0:  # before its first page: what is deleted can be given back in small steps
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have done it while this one waited for its turn.
        for step in migrations[store_version(connection, where, len(migrations)) :]:
            step(connection)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {len(migrations)}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def store_version(connection: sqlite3.Connection, where: str, newest: int) -> int:
    """Return the version of a file, 0 of a new one; raise `StoreError` if it is no store or too new."""
    (owner,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if owner != APPLICATION_ID and (owner, version, tables) != (0, 0, 0):
        raise StoreError(f"{where}: an SQLite database, but not a Forewarn store; choose another folder")
    if version > newest:
        raise StoreError(
            f"{where}: written by a newer Forewarn (store version {version}, this one knows {newest}); "
            "upgrade Forewarn, or choose another folder"
        )
    assert isinstance(version, int)
    return version
