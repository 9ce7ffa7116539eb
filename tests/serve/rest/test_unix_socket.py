"""Unix sockets: their permissions at every moment, and whose file it is."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from forewarn.errors import UsageError
from forewarn.serve.rest.unix_socket import unix_socket

KINDS = (socket.SOCK_STREAM, socket.SOCK_DGRAM)
MODES = ("0600", "0660", "0666")

# Opens a socket in a process of its own, whose umask it is; prints the modes of its file: when it is widened,
# and at the end.
_WATCHED = """
import os, socket, stat, sys
from pathlib import Path
from forewarn.serve.rest.unix_socket import unix_socket

place, kind, mode, umask = Path(sys.argv[1]), socket.SocketKind(int(sys.argv[2])), sys.argv[3], sys.argv[4]
os.umask(int(umask, 8))
modes = []

def note(*_):
    if place.exists():
        modes.append(oct(stat.S_IMODE(place.stat().st_mode)))

sys.addaudithook(lambda event, _: note() if event == "os.chmod" else None)
with unix_socket(place, kind, mode):
    note()
print(*modes)
"""


@pytest.mark.parametrize("umask", ["0000", "0022", "0077"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", KINDS)
def test_permissions_are_never_wider(kind: int, mode: str, umask: str, tmp_path: Path) -> None:
    """Whatever the umask is: as soon as the file is there, anybody whom it allows may send to the socket."""
    command = [sys.executable, "-c", _WATCHED, str(tmp_path / "s"), str(int(kind)), mode, umask]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    first, last = (int(one, 8) for one in done.stdout.split())
    assert last == int(mode, 8)
    assert first & ~last == 0, f"{first:o} before {last:o}"


def test_files_of_other_threads_keep_their_permissions(tmp_path: Path) -> None:
    """While sockets are opened, another thread creates files: with the umask of the process, all of them."""
    umask = os.umask(0o022)
    found: set[int] = set()
    ends = threading.Event()

    def create_files() -> None:
        number = 0
        while not ends.is_set():
            place = tmp_path / f"file{number}"
            os.close(os.open(place, os.O_CREAT | os.O_WRONLY, 0o666))
            found.add(stat.S_IMODE(place.stat().st_mode))
            place.unlink()
            number += 1

    other = threading.Thread(target=create_files)
    other.start()
    try:
        for number in range(500):
            with unix_socket(tmp_path / f"s{number}", KINDS[number % 2], "0660"):
                pass
    finally:
        ends.set()
        other.join()
        os.umask(umask)
    assert found == {0o644}


def test_a_file_that_another_service_put_there_is_left(tmp_path: Path) -> None:
    place = tmp_path / "s"
    with unix_socket(place, socket.SOCK_STREAM, "0600"):
        place.unlink()
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(str(place))
    assert place.is_socket()
    with unix_socket(place, socket.SOCK_STREAM, "0600"):  # nobody listens there: left by a killed service
        again = unix_socket(place, socket.SOCK_STREAM, "0600")
        with pytest.raises(UsageError, match="another process listens there"), again:
            pass
        assert place.is_socket()
    assert not place.exists()


def test_places_where_no_socket_can_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place, reason in (
        (tmp_path / "file", "is not a socket"),
        (tmp_path / "absent" / "s", "cannot listen there"),
        (tmp_path / ("x" * 120), "cannot listen there"),
    ):
        with pytest.raises(UsageError, match=reason), unix_socket(place, socket.SOCK_STREAM, "0600"):
            pass
    assert (tmp_path / "file").read_text() == ""
