"""Temporary storage of an answer until it is read: in memory, on disk where it is large."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from typing import IO, cast

from forewarn.errors import NoRoomError

_IN_MEMORY = 4 << 20  # bytes before it goes to disk


def scratch_file() -> IO[bytes]:
    """Open a file that is deleted when it is closed."""
    return cast("IO[bytes]", tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY))


def fill(scratch: IO[bytes], chunks: Iterable[bytes]) -> int:
    """Write all chunks and return to the beginning; return the number of bytes.

    This process writes, not the command that prints: a command whose output finds no room may end as if all
    were well, and a truncated history would be taken for a whole one.
    """
    size = 0
    for chunk in chunks:
        try:
            scratch.write(chunk)
        except OSError as error:
            raise NoRoomError(
                f"{tempfile.gettempdir()}: no room for an answer of Slurm ({error.strerror}): "
                "free space, or set TMPDIR to another folder"
            ) from None
        size += len(chunk)
    scratch.seek(0)
    return size
