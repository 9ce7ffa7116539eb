"""Claims of the embedded store: a lock on a file in the home, which the kernel frees when its holder dies."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import IO, Self
from urllib.parse import quote, unquote

from forewarn.errors import StoreError
from forewarn.files import open_no_link

FOLDER = "claims"


class FileClaim:
    """A name that this process holds, until the block ends."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def claim(home: Path, name: str) -> FileClaim | None:
    """Claim a name in a home; None where it is held already, be it by this process.

    A child that is forked meanwhile holds it too, until both have ended; one that is started anew does not.
    The file stays when it is free again: who removed it could remove one that another has just locked.
    """
    try:
        folder = home / FOLDER
        folder.mkdir(mode=0o700, exist_ok=True)
        file = open(folder / f"{quote(name, safe='')}.lock", "a", opener=open_no_link)  # noqa: SIM115
    except OSError as error:
        raise StoreError(f"{home / FOLDER}: no claim can be kept there: {error.strerror}") from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    except OSError as error:
        file.close()
        raise StoreError(f"{file.name}: cannot be locked: {error.strerror}") from None
    # For people who look who it is; nobody reads it here.
    file.truncate(0)
    file.write(f"{os.getpid()}\n")
    file.flush()
    return FileClaim(file)


def held_claims(home: Path) -> list[str]:
    """Return the names in a home that any process holds now."""
    names = []
    for path in sorted((home / FOLDER).glob("*.lock")):
        name = unquote(path.stem)
        free = claim(home, name)
        if free is None:
            names.append(name)
        else:
            with free:
                pass
    return names
