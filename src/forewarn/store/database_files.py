"""Whole SQLite files: shrinking one after deletions, copying one while others write to it, checking one."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from forewarn.errors import StoreBusyError, StoreError
from forewarn.progress import StageProgress
from forewarn.store.database import connect, store_errors

_INCREMENTAL = 2  # the value of `PRAGMA auto_vacuum`
_STEP_PAGES = 8192  # pages given back in one transaction: 32 MiB
_COPY_PAGES = 4096  # pages copied between two reports of progress
BUSY_SECONDS = 30.0


def shrink(path: Path, *, wipe: bool, busy_seconds: float = BUSY_SECONDS) -> int:
    """Give free pages back to the system, in short steps; return by how many bytes the files shrank.

    With `wipe`, or in a file of an older version, the whole file is written again (others read meanwhile, and
    wait to write): free pages, and unused parts of pages, hold what was deleted.
    """
    before = _size(path)
    with closing(connect(path, read_only=False, busy_seconds=busy_seconds)) as connection:
        (mode,) = connection.execute("PRAGMA auto_vacuum").fetchone()
        if wipe or mode != _INCREMENTAL:
            connection.execute(f"PRAGMA auto_vacuum = {_INCREMENTAL}")
            connection.execute("VACUUM")
        while free := _free_pages(connection):
            connection.execute(f"PRAGMA incremental_vacuum({_STEP_PAGES})").fetchall()
            if _free_pages(connection) >= free:
                break  # others write faster than this; the next time is soon enough
        (busy, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if busy and wipe:
        raise StoreBusyError(
            f"{path}: a process has been reading for more than {busy_seconds:g} s, and the log beside the "
            "file may hold deleted data until it ends. Run the same command again then"
        )
    return before - _size(path)


def copy_database(source: Path, target: Path, progress: StageProgress) -> None:
    """Copy a database as it is at one moment, while others write to it; the new file is on the disk then."""
    with (
        store_errors(source, BUSY_SECONDS),
        closing(connect(source, read_only=True, busy_seconds=BUSY_SECONDS)) as connection,
        closing(sqlite3.connect(target)) as copy,
    ):
        # With a read transaction open the copy is of one state, and does not begin again when others write.
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        (page,) = connection.execute("PRAGMA page_size").fetchone()

        def report(_: int, remaining: int, total: int) -> None:
            progress((total - remaining) * page, total * page)

        connection.backup(copy, pages=_COPY_PAGES, progress=report)
        copy.execute("PRAGMA journal_mode = DELETE")  # one file; who opens it chooses the log again
    target.chmod(0o600)


def check_database(path: Path) -> None:
    """Raise `StoreError` if a database that nobody uses is damaged."""
    with (
        store_errors(path),
        closing(connect(path, read_only=True, busy_seconds=0, is_immutable=True)) as connection,
    ):
        (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise StoreError(f"{path}: the database is damaged: {found}")


def _free_pages(connection: sqlite3.Connection) -> int:
    (free,) = connection.execute("PRAGMA freelist_count").fetchone()
    return int(free)


def _size(path: Path) -> int:
    files = (path, path.with_name(f"{path.name}-wal"))
    return sum(file.stat().st_size for file in files if file.exists())
