"""Where an answer lies until it is read: in memory, on disk where it is large."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from typing import IO, cast

from forewarn.errors import NoRoomError

_IN_MEMORY = 4 << 20  # bytes before it goes to disk


def scratch_file() -> IO[bytes]:
    """A file that is gone when it is closed."""
    return cast("IO[bytes]", tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY))


def fill(scratch: IO[bytes], chunks: Iterable[bytes]) -> int:
    """Write what comes, and go back to its beginning: how many bytes that were.

    It is we who write, and not the command that prints: a command whose output has no room may end as if
    all were well, and a history that is cut short would be taken for a whole one.
    """
    size = 0
    for chunk in chunks:
        try:
            scratch.write(chunk)
        except OSError as error:
            raise NoRoomError(
                f"{tempfile.gettempdir()}: an answer of Slurm finds no room there ({error.strerror}): "
                "free space, or set TMPDIR to another folder"
            ) from None
        size += len(chunk)
    scratch.seek(0)
    return size
