"""Unix sockets to listen on, with the permissions that are configured."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

from forewarn.errors import UsageError

BACKLOG = 2048


@contextlib.contextmanager
def unix_socket(path: Path, kind: socket.SocketKind, mode: str) -> Iterator[socket.socket]:
    """Open a unix socket; a file that a killed service left there is replaced, one that answers is not."""
    with socket.socket(socket.AF_UNIX, kind) as opened:
        try:
            _remove_stale(path, kind)
            own = _bind(opened, path, int(mode, 8))
            if kind == socket.SOCK_STREAM:
                opened.listen(BACKLOG)
        except OSError as error:
            raise UsageError(f"{path}: cannot listen there: {error.strerror or error}") from None
        try:
            yield opened
        finally:
            opened.close()
            with contextlib.suppress(OSError):
                if path.lstat().st_ino == own:  # not that of a service that came after
                    path.unlink()


def _bind(opened: socket.socket, path: Path, mode: int) -> int:
    """Create the socket's file, at no moment wider than its mode; return its inode number.

    The file gets what the socket itself has, without the bits of the umask (unix(7), Linux). The umask is the
    whole process's: to change it for a moment gives another thread's new file the wrong permissions.
    """
    os.fchmod(opened.fileno(), mode)
    opened.bind(str(path))
    path.chmod(mode)  # with the bits that the umask took
    return path.lstat().st_ino


def _remove_stale(path: Path, kind: socket.SocketKind) -> None:
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise UsageError(f"{path}: exists and is not a socket: remove it, or choose another place")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, kind) as probe:
        probe.settimeout(1)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
    raise UsageError(f"{path}: another process listens there; stop it first")
