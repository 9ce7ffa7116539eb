"""Stores of other versions: older ones are brought up to date, newer ones refused."""

from __future__ import annotations

import io
import json
import sqlite3
import zlib
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest

from forewarn.config import Config
from forewarn.errors import StoreError
from forewarn.job.columns import complete
from forewarn.store.base import ASSESSMENT_SCHEMA
from forewarn.store.embedded import FILE, open_embedded
from forewarn.store.opening import open_store
from forewarn.store.schema import APPLICATION_ID, MIGRATIONS, migrate
from forewarn.store.text_compression import packed_text
from tests.store.contract import whole
from tests.store.samples import many

# The store before it kept predictions.
VERSION_2 = f"""
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = 2;
CREATE TABLE segment (id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, cluster TEXT NOT NULL,
    rows INTEGER NOT NULL, first_time INTEGER NOT NULL, last_time INTEGER NOT NULL, first_number INTEGER,
    last_number INTEGER, last_written INTEGER NOT NULL, checksum INTEGER NOT NULL, data BLOB NOT NULL);
CREATE TABLE tally (kind TEXT NOT NULL, cluster TEXT NOT NULL, records INTEGER NOT NULL,
    PRIMARY KEY (kind, cluster)) WITHOUT ROWID;
CREATE TABLE cluster (name TEXT PRIMARY KEY, timezone TEXT NOT NULL, fields TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE cursor (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE space (id INTEGER PRIMARY KEY, cluster TEXT NOT NULL, name TEXT NOT NULL,
    UNIQUE (cluster, name));
CREATE TABLE state (space INTEGER NOT NULL REFERENCES space, key INTEGER NOT NULL, value BLOB NOT NULL,
    PRIMARY KEY (space, key)) WITHOUT ROWID;
INSERT INTO cursor VALUES ('sacct', '17');
INSERT INTO tally VALUES ('job', 'c', 2);
PRAGMA journal_mode = WAL;
"""
# A record as it was before most of its fields, with one that has gone since.
OLD_JOBS = pl.DataFrame(
    {
        "cluster": "c",
        "job_id": ["1", "2"],
        "submit": [100, 101],
        "user": ["ann", "bob"],
        "shoe_size": [43, 39],
    }
    | {"seen_at": [100, 101], "source": "log", "reconstructed": True, "written": [1, 2]}
)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    data = io.BytesIO()
    OLD_JOBS.write_parquet(data)
    blob = data.getvalue()
    with closing(sqlite3.connect(tmp_path / FILE)) as connection:
        connection.executescript(VERSION_2)
        with connection:
            connection.execute(
                "INSERT INTO segment VALUES (1, 'job', 'c', 2, 100, 101, 1, 2, 2, ?, ?)",
                (zlib.crc32(blob), blob),
            )
    return tmp_path


def version(home: Path) -> int:
    with closing(sqlite3.connect(home / FILE)) as connection:
        (found,) = connection.execute("PRAGMA user_version").fetchone()
    assert isinstance(found, int)
    return found


def tables(home: Path) -> list[str]:
    with closing(sqlite3.connect(home / FILE)) as connection:
        rows = connection.execute(
            "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name"
        ).fetchall()
    return [" ".join(sql.split()).replace("( ", "(").replace(" )", ")") for (sql,) in rows]


def test_an_older_store_is_brought_up_to_date(old: Path) -> None:
    with open_embedded(old) as store:
        assert version(old) == len(MIGRATIONS) == 7
        assert store.cursor("sacct") == "17"
        assert store.count() == 2
        assert store.assessments().schema == pl.Schema(ASSESSMENT_SCHEMA)


def test_predictions_that_an_older_version_kept_are_assessments(old: Path) -> None:
    detail = '{"verdict": "likely to fail", "reasons": ["your last 4 jobs failed"]}'
    kept = ("c", 100, "submit", "m/1", 0.5, 0.4)
    rows = [(*kept, str(n), 200 - n, text) for n, text in enumerate((detail, None))]
    with closing(sqlite3.connect(old / FILE, isolation_level=None)) as connection:
        migrate(connection, "here", read_only=False, migrations=MIGRATIONS[:3])
        connection.executemany(
            "INSERT INTO prediction"
            " (cluster, submit, phase, model, probability, threshold, job_id, made_at, detail)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            rows,
        )
    with open_embedded(old) as store:
        assert version(old) == 7
        columns = ["job_id", "made_at", "probability", "threshold", "verdict", "hours_at_risk", "body"]
        assert store.assessments(columns=columns).rows() == [
            ("1", 199, 0.5, 0.4, None, None, None),
            ("0", 200, 0.5, 0.4, "likely_to_fail", None, detail),
        ]


def test_the_cause_of_an_older_assessment_is_read_from_its_body(old: Path) -> None:
    parts = [("failed", 0.2), ("timeout", 0.15), ("timeout", 0.1)]
    causes = [{"outcome": outcome, "probability": p} for outcome, p in parts]
    bodies = [{"failure": {"causes": causes}}, {"failure": None}, {"failure": {"causes": []}}, []]
    packed = [*(packed_text(json.dumps(body)) for body in bodies), None, b"broken"]
    with closing(sqlite3.connect(old / FILE, isolation_level=None)) as connection:
        migrate(connection, "here", read_only=False, migrations=MIGRATIONS[:4])
        connection.executemany(
            "INSERT INTO assessment (cluster, job_id, submit, phase, model, made_at, body)"
            " VALUES ('c', ?, 0, 'submit', 'm', 7, ?)",
            [(str(number), body) for number, body in enumerate(packed)],
        )
    with open_embedded(old) as store:
        found = store.assessments(columns=["job_id", "cause"]).rows()
    assert found == [("0", "timeout"), *((str(n), None) for n in range(1, 6))]


def test_a_new_store_has_the_same_tables_as_one_brought_up_to_date(old: Path, tmp_path: Path) -> None:
    open_embedded(old).close()
    open_embedded(tmp_path / "new").close()
    assert tables(tmp_path / "new") == tables(old)


def test_fields_that_a_record_got_later_are_null(old: Path) -> None:
    with open_embedded(old) as store:
        found = whole(store)
        assert found.select("job_id", "user", "partition", "known_at").rows() == [
            ("1", "ann", None, None),
            ("2", "bob", None, None),
        ]
        assert "shoe_size" not in found.columns
        # And such an observation is still the same one when it is read again.
        with store.writing() as writer:
            again = writer.observe("job", complete(OLD_JOBS), file="log")
            assert (again.new, again.same) == (0, 2)
            writer.observe("job", many(20, first=90))
        assert whole(store, columns=["submit", "user"], since=100, until=101).rows() == [
            (100, "ann"),
            (100, "u2"),
        ]


def test_who_may_only_read_cannot_bring_it_up_to_date(old: Path) -> None:
    with pytest.raises(StoreError, match=r"version 2.*needs 7.*forewarn ingest"):
        open_embedded(old, read_only=True)
    assert version(old) == 2


def test_a_newer_store_is_refused(tmp_path: Path) -> None:
    with open_embedded(tmp_path) as store, store.writing() as writer:
        writer.observe("job", many(10))
    with closing(sqlite3.connect(tmp_path / FILE)) as connection:
        connection.execute("PRAGMA user_version = 999")
    for read_only in (False, True):
        with pytest.raises(StoreError, match=r"newer Forewarn.*999.*upgrade"):
            open_embedded(tmp_path, read_only=read_only)
    assert version(tmp_path) == 999


def test_a_step_that_fails_leaves_the_store_as_it_was(tmp_path: Path) -> None:
    with open_embedded(tmp_path) as store, store.writing() as writer:
        writer.observe("job", many(10))
    before = tables(tmp_path)

    def good(connection: sqlite3.Connection) -> None:
        connection.execute("ALTER TABLE segment ADD COLUMN more TEXT")

    def bad(connection: sqlite3.Connection) -> None:
        connection.execute("CREATE TABLE more (x)")
        raise ZeroDivisionError

    with closing(sqlite3.connect(tmp_path / FILE, isolation_level=None)) as connection:
        with pytest.raises(ZeroDivisionError):
            migrate(connection, "here", read_only=False, migrations=[*MIGRATIONS, good, bad])
        assert (tables(tmp_path), version(tmp_path)) == (before, len(MIGRATIONS))
        migrate(connection, "here", read_only=False, migrations=[*MIGRATIONS, good])
        assert version(tmp_path) == len(MIGRATIONS) + 1
        assert connection.execute("SELECT more FROM segment").fetchall() == [(None,)]


def test_who_reads_and_may_write_brings_it_up_to_date(old: Path) -> None:
    """After an upgrade `forewarn check` need not wait for somebody to ingest."""
    with open_store(Config(home=old), read_only=True) as store:
        assert store.count() > 0
    assert version(old) == len(MIGRATIONS)
