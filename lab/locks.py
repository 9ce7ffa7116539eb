"""Locks that end with the process that holds them, so a killed one leaves nothing locked."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO


@contextmanager
def locked(path: Path) -> Iterator[TextIO]:
    """Wait for the lock and hold it inside the block; a child given the file's descriptor holds it on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file


def try_lock(path: Path) -> TextIO | None:
    """Take the lock, held until the file is closed here and in every child; return None if it is taken."""
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file
