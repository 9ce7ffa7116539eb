"""Files and folders that Forewarn writes: complete or not at all, through no link, private to the owner.

Data is first written beside the target, under a random name that must not exist yet, and renamed when it is
complete. So nothing that another user planted in a shared
folder (a link called `job.fixed.sbatch.partial`) is ever opened.

Modes: what Forewarn keeps for itself is private (`sharing.py`); a file that the user asked for by name
has the mode that the user's umask gives.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from forewarn.errors import ForewarnError, UsageError
from forewarn.sharing import callers_umask

SUFFIX = ".partial"
_NEW = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def check_target(path: Path) -> None:
    """Raise if a path is not a plain file: renaming a file over a device would break a system."""
    if path.exists() and not path.is_file():
        raise UsageError(f"{path}: is there and not a plain file; name a file to write")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn errors of the disk into a `ForewarnError` that names the file."""
    try:
        yield
    except Exception as error:
        if not isinstance(error, OSError) and not _is_of_polars(error):
            raise
        raise ForewarnError(f"{path}: cannot be written: {_reason(error)}") from None


class PartialFile:
    """An empty file beside the target, to be filled by its name and then renamed."""

    def __init__(self, target: Path, *, private: bool = False) -> None:
        check_target(target)
        self.target = target
        self.path = _unforeseen(target)
        handle = os.open(self.path, os.O_WRONLY | _NEW, 0o666)
        try:
            if not private and (umask := callers_umask()) is not None:
                os.fchmod(handle, 0o666 & ~umask)
            self._identity = _identity(os.fstat(handle))
        finally:
            os.close(handle)

    def put_in_place(self) -> None:
        """Rename it to the target, if it still is the file that was created."""
        if _identity(self.path.lstat()) != self._identity:
            raise ForewarnError(f"{self.target}: somebody else replaced the file while it was being written")
        self.path.replace(self.target)

    def drop(self) -> None:
        """Delete it, unless it is in place."""
        with suppress(OSError):
            self.path.unlink(missing_ok=True)


@contextmanager
def whole_file(path: Path, *, private: bool = False) -> Iterator[Path]:
    """Yield the name to write to; it becomes `path` if the block succeeds and is deleted if it fails."""
    with writing(path):
        partial = PartialFile(path, private=private)
    try:
        with writing(path):
            yield partial.path
            partial.put_in_place()
    finally:
        partial.drop()


def write_file(path: Path, text: str | bytes, *, private: bool = False) -> None:
    """Write a complete file and wait until it is on the disk."""
    with whole_file(path, private=private) as partial:
        partial.write_bytes(text.encode("utf-8") if isinstance(text, str) else text)
        sync(partial)


@contextmanager
def whole_folder(path: Path, *, private: bool = False) -> Iterator[Path]:
    """Do the same for a folder, which must not exist yet and is on the disk before it gets its name."""
    if path.exists():
        raise UsageError(f"{path}: is there already; name a folder that is not")
    partial = _unforeseen(path)
    try:
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            partial.mkdir(mode=0o700)
            yield partial
            umask = _umask(partial, private=private)
            for place in (*partial.rglob("*"), partial):
                # Files that were copied into it have the modes that they had elsewhere.
                kept = place.stat().st_mode & stat.S_ISGID  # of a home that is shared with a group
                place.chmod((0o777 if place.is_dir() else 0o666) & ~umask | kept)
                sync(place)
            partial.rename(path)
            sync(path.parent)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def is_ours(folder: Path) -> bool:
    """Check whether a folder's content was put there by this user (or root) and nobody else.

    In a folder that everyone may write to, such as /tmp, another user may have created it, or a link to one.
    """
    try:
        about = folder.lstat()
    except OSError:
        return False
    others_write = about.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISDIR(about.st_mode) and about.st_uid in (os.getuid(), 0) and not others_write


def open_no_link(path: str, flags: int) -> int:
    """Open without following a link: the `opener` of files that stay open (a lock, a journal)."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)


def head_of(path: Path, length: int) -> bytes | None:
    """Read the first bytes of a plain file; None for anything else: reading a pipe would block."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            return file.read(length) if stat.S_ISREG(os.fstat(handle).st_mode) else None
    except (OSError, ValueError):
        return None


def sync(path: Path) -> None:
    """Wait until a file, or a folder's list of names, is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _unforeseen(path: Path) -> Path:
    return path.with_name(f".{path.name[:100]}.{secrets.token_hex(8)}{SUFFIX}")


def _identity(about: os.stat_result) -> tuple[int, int, bool]:
    return about.st_dev, about.st_ino, stat.S_ISREG(about.st_mode)


def _umask(folder: Path, *, private: bool) -> int:
    """Return the umask in force. The only safe way to read it is to look at a new file."""
    if not private and (umask := callers_umask()) is not None:
        return umask
    probe = _unforeseen(folder / "mode")
    os.close(os.open(probe, os.O_WRONLY | _NEW, 0o777))
    mode = stat.S_IMODE(probe.stat().st_mode)
    probe.unlink()
    return 0o777 & ~mode


def _is_of_polars(error: Exception) -> bool:
    """Tell whether Polars failed, without importing it: most files are written without."""
    polars = sys.modules.get("polars")
    return polars is not None and isinstance(error, polars.exceptions.PolarsError)


def _reason(error: Exception) -> str:
    """Extract the reason of an error.

    >>> _reason(ValueError("parquet: IO error: something long (os error 28)"))
    'No space left on device'
    """
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    # Polars tells the system's answer as text only.
    number = re.search(r"\(os error (\d+)\)", str(error))
    return os.strerror(int(number[1])) if number else str(error).partition("\n")[0]
