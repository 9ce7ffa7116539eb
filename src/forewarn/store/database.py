"""Connections to the store's SQLite file, and SQLite's errors as messages a person can act on."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from forewarn.errors import StoreBusyError, StoreError
from forewarn.sharing import file_mode, is_shared, tighten

# After a large write the log beside the file is cut back to this when it is next reset.
_LOG_BYTES = 64 << 20
# The byte of the shared-memory file that SQLite's writer locks (wal.c: WAL_WRITE_LOCK).
_WRITER_BYTE = 120


def connect(
    path: Path, *, read_only: bool, busy_seconds: float, is_immutable: bool = False
) -> sqlite3.Connection:
    """Open a connection in autocommit mode; any one thread at a time may use it.

    With `is_immutable` the write-ahead log is ignored and nothing is locked: nobody may be writing.
    """
    connection = sqlite3.connect(
        f"file:{quote(str(path))}?mode={'ro' if read_only else 'rwc'}{'&immutable=1' * is_immutable}",
        uri=True,
        timeout=busy_seconds,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        # FULL: a commit returns when the disk has it, so that nothing acknowledged is lost.
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA journal_size_limit = {_LOG_BYTES}")
    except BaseException:
        connection.close()
        raise
    return connection


def make_private(path: Path) -> None:
    """Create the file, readable by its owner and by the group that the home is shared with.

    SQLite gives the files that it makes beside it the same mode. Files of an older version become private.
    """
    mode = file_mode(path.parent)
    with suppress(FileExistsError):
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        os.close(os.open(path, flags, mode))
    for file in (path, *_beside(path)):
        tighten(file, mode)
    for folder in ("models", "rejects", "simulated"):
        tighten(path.parent / folder, 0o750 if mode & 0o040 else 0o700)


def leave_readable(path: Path) -> None:
    """Leave the files that a reader without write permission needs, in a shared home.

    Whoever opens a file with a write-ahead log must find the log and its index, or make them. SQLite removes
    both with the last connection; empty ones let others read, with locks that a later writer respects.
    """
    if not is_shared(path.parent):
        return
    for file in _beside(path):
        with suppress(OSError):
            handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC)
            os.fchmod(handle, 0o640)
            os.close(handle)


def _beside(path: Path) -> tuple[Path, Path]:
    return path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")


def use_log(connection: sqlite3.Connection) -> None:
    """Switch the file to a write-ahead log, so that others can read while one writes."""
    if connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
        connection.execute("PRAGMA journal_mode = WAL")
    # With its first read this connection has the log open; as long as one has, closing others is cheap.
    connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()


@contextmanager
def store_errors(path: Path, busy_seconds: float = 0) -> Iterator[None]:
    """Turn SQLite's errors into `StoreError`s that name the file and what to do."""
    try:
        yield
    except sqlite3.Error as error:
        raise _in_words(error, path, busy_seconds) from error


def _in_words(error: sqlite3.Error, path: Path, busy_seconds: float) -> StoreError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        holder = lock_holder(path)
        who = "another process" if holder is None else f"process {holder} (see: ps -fp {holder})"
        return StoreBusyError(
            f"{path}: {who} is writing to the store and did not finish within {busy_seconds:g} s; "
            "nothing was written. Try again when it is done"
        )
    if code == sqlite3.SQLITE_FULL:
        return StoreError(f"{path}: the disk is full; the store is as it was before. Make room and try again")
    if code == sqlite3.SQLITE_IOERR:
        return StoreError(
            f"{path}: the disk did not take or give the data ({_name(error)}); the store is as it was. "
            "Look for a full disk, a quota or file size limit, or a failing disk"
        )
    if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_AUTH):
        return StoreError(
            f"{path}: no permission ({error}). Only the owner of the home writes to it; it lets a group read "
            "by `forewarn config share GROUP`"
        )
    if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
        return StoreError(
            f"{path}: not a Forewarn store, or a damaged one ({error}). Restore it from a backup, or move it "
            "away and ingest again"
        )
    return StoreError(f"{path}: {error} ({_name(error)})")


def _name(error: sqlite3.Error) -> str:
    return str(getattr(error, "sqlite_errorname", None) or type(error).__name__)


def lock_holder(path: Path, locks: Path = Path("/proc/locks")) -> int | None:
    """Return the id of the process that is writing, if the kernel shows it."""
    try:
        inode = path.with_name(f"{path.name}-shm").stat().st_ino
        lines = locks.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        # 3: POSIX  ADVISORY  WRITE 4711 08:01:131 120 120
        parts = line.split()
        if len(parts) == 8 and parts[3] == "WRITE" and parts[5].endswith(f":{inode}"):
            first, last, holder = parts[6], parts[7], int(parts[4])
            if int(first) <= _WRITER_BYTE and (last == "EOF" or int(last) >= _WRITER_BYTE) and holder > 0:
                return holder
    return None
