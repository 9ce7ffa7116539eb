"""Ways to read a store's file for a user who cannot write beside it.

SQLite reads a file with a write-ahead log only where the log and its index are there or can be made. A writer
of a shared home leaves both (`leave_readable`). Elsewhere, on a read-only file system or in a folder that was
opened to others by hand, there are two more ways:

- `immutable=1`, which ignores the log: right only where that is empty and nobody can write;
- a private copy of the file and its log, which SQLite recovers as after a crash.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from forewarn.errors import StoreBusyError
from forewarn.store.database import connect

_TRIES = 3  # of a copy during which nobody wrote


@dataclass(frozen=True, slots=True)
class ReadOnlyFile:
    """The file to open instead of the store's own, and how."""

    file: Path
    is_immutable: bool = False
    state: tuple[int, int, int] | None = None  # of a file that is not locked, when it was found
    scratch: TemporaryDirectory[str] | None = None  # where the file is a copy

    def check_unchanged(self) -> None:
        """Raise if the file changed while it was read without locks.

        A folder that is mounted read-only here may be written to through another mount.
        """
        if self.state is not None and _state(self.file) != self.state:
            raise StoreBusyError(f"{self.file}: was written to while it was read; try again")

    def close(self) -> None:
        """Delete the copy."""
        if self.scratch is not None:
            self.scratch.cleanup()


def may_write(path: Path) -> bool:
    """Check whether this user may write to a store's file, or create it."""
    places = [path.parent, path] if path.exists() else [path.parent]
    return all(os.access(place, os.W_OK, effective_ids=True) for place in places)


def find_way(path: Path, busy_seconds: float) -> ReadOnlyFile:
    """Find how a store's file can be read; `sqlite3.Error` if it cannot."""
    try:
        with closing(connect(path, read_only=True, busy_seconds=busy_seconds)) as connection:
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        return ReadOnlyFile(path)
    except sqlite3.OperationalError as error:
        cannot_open = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_CANTOPEN
        if not cannot_open or not os.access(path, os.R_OK, effective_ids=True):
            raise
    log = path.with_name(f"{path.name}-wal")
    log_is_empty = not log.exists() or log.stat().st_size == 0
    if log_is_empty and os.statvfs(path).f_flag & os.ST_RDONLY:
        return ReadOnlyFile(path, is_immutable=True, state=_state(path))
    return _copied(path, log)


def _copied(path: Path, log: Path) -> ReadOnlyFile:
    """Copy the file and its log as they were at one moment."""
    scratch = TemporaryDirectory(prefix="forewarn-")
    try:
        for _ in range(_TRIES):
            before = _state(path), _state(log)
            for file in (path, log):
                if file.exists():
                    shutil.copyfile(file, Path(scratch.name, file.name))
            if (_state(path), _state(log)) == before:
                return ReadOnlyFile(Path(scratch.name, path.name), scratch=scratch)
        raise StoreBusyError(f"{path}: is being written to; try again")
    except BaseException:
        scratch.cleanup()
        raise


def _state(file: Path) -> tuple[int, int, int] | None:
    try:
        about = file.stat()
    except FileNotFoundError:
        return None
    return about.st_ino, about.st_size, about.st_mtime_ns
