"""Files and folders that Forewarn writes: whole or not at all, and what a disk answers in words.

What is written lies beside the file that was asked for, as `<name>.partial`, and takes its name when it
is whole.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import polars as pl

from forewarn.errors import ForewarnError, UsageError


def partial_of(path: Path) -> Path:
    """Where a file is written until it is whole."""
    return path.with_name(path.name + ".partial")


def check_target(path: Path) -> None:
    """Refuse a name that is not a plain file's: renaming a file over a device would break a system."""
    if path.exists() and not path.is_file():
        raise UsageError(f"{path}: is there and not a plain file; name a file to write")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """What a disk may answer, as a `ForewarnError` that names the file."""
    try:
        yield
    except (OSError, pl.exceptions.PolarsError) as error:
        raise ForewarnError(f"{path}: cannot be written: {_reason(error)}") from None


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """The name to write to; it becomes `path` when the block has ended well, and is gone when it has not."""
    check_target(path)
    partial = partial_of(path)
    try:
        with writing(path):
            yield partial
            partial.replace(path)
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """The same for a folder, which must not be there yet, and is on the disk before it takes its name."""
    if path.exists():
        raise UsageError(f"{path}: is there already; name a folder that is not")
    partial = partial_of(path)
    try:
        with writing(path):
            shutil.rmtree(partial, ignore_errors=True)  # left by a run that was killed
            partial.mkdir(parents=True)
            yield partial
            for place in (*partial.rglob("*"), partial):
                sync(place)
            partial.rename(path)
            sync(path.parent)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def sync(path: Path) -> None:
    """Wait until a file, or a folder's list of names, is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _reason(error: Exception) -> str:
    """
    >>> _reason(pl.exceptions.ComputeError("parquet: IO error: something long (os error 28)"))
    'No space left on device'
    """
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    # Polars tells the system's answer as text only.
    number = re.search(r"\(os error (\d+)\)", str(error))
    return os.strerror(int(number[1])) if number else str(error).partition("\n")[0]
