"""Folders and files that cannot hold a store, and disks that fail: refused in words, the store as it was."""

from __future__ import annotations

import os
import resource
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from forewarn.errors import StoreError, UnfitFileSystemError
from forewarn.store.embedded import FILE, open_embedded
from forewarn.store.filesystem import file_system_of
from tests.store.contract import whole
from tests.store.samples import many

MOUNTS = r"""21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
35 21 0:31 / /home rw,relatime shared:2 - nfs4 server:/home rw,vers=4.2
36 21 0:32 / /scratch rw - lustre 10.0.0.1@o2ib:/scratch rw,flock
37 21 0:33 / /my\040disk rw - beegfs beegfs_nodev rw
38 21 0:34 / /net rw - autofs systemd-1 rw
39 38 0:35 / /net rw - nfs server:/net rw
40 35 0:36 / /home/local rw master:3 - xfs /dev/sdb1 rw
41 21 0:37 / /ssh rw - fuse.sshfs me@host: rw
42 21 0:38 / /ntfs rw - fuseblk /dev/sdc1 rw
torn line without its other half
"""


@pytest.mark.parametrize("folder", ["/home/ann/.forewarn", "/scratch", "/my disk/x", "/net/x", "/ssh/x"])
def test_a_network_file_system_is_refused(folder: str) -> None:
    with pytest.raises(
        UnfitFileSystemError, match=r"FOREWARN_HOME.*each machine needs a home of its own"
    ) as refused:
        open_embedded(Path(folder), mounts=MOUNTS)
    assert folder in str(refused.value)
    assert not Path(folder).exists()


@pytest.mark.parametrize(
    ("folder", "expected"),
    [
        ("/var/lib/forewarn", ("/", "ext4")),
        ("/home/local/x", ("/home/local", "xfs")),
        ("/homework", ("/", "ext4")),
        ("/ntfs", ("/ntfs", "fuseblk")),
    ],
)
def test_a_local_one_is_not(folder: str, expected: tuple[str, str]) -> None:
    assert file_system_of(Path(folder), MOUNTS) == expected


def test_a_link_leads_to_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "home").symlink_to("/scratch/ann")
    with pytest.raises(UnfitFileSystemError, match="lustre"):
        open_embedded(tmp_path / "home", mounts=MOUNTS)


def test_the_folder_is_created(tmp_path: Path) -> None:
    with open_embedded(tmp_path / "a" / "b & 'c'?#%20") as store:
        assert store.count() == 0
    with open_embedded(tmp_path / "a" / "b & 'c'?#%20", read_only=True) as store:
        assert store.count() == 0
        with pytest.raises(StoreError, match="reading only"), store.writing():
            pass


def test_a_reader_creates_nothing(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no store in this folder"):
        open_embedded(tmp_path / "x", read_only=True)
    assert not (tmp_path / "x").exists()
    (tmp_path / FILE).touch()
    with pytest.raises(StoreError, match="empty"):
        open_embedded(tmp_path, read_only=True)


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "home").touch()
    with pytest.raises(StoreError, match="home"):
        open_embedded(tmp_path / "home")
    with pytest.raises(StoreError, match="home"):
        open_embedded(tmp_path / "home" / "below")


def test_another_programs_files_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / FILE
    path.write_bytes(b"these are no job records, and certainly no database\n" * 100)
    before = path.read_bytes()
    with pytest.raises(StoreError, match="not a Forewarn store"):
        open_embedded(tmp_path)
    assert path.read_bytes() == before
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    before = path.read_bytes()
    with pytest.raises(StoreError, match="not a Forewarn store"):
        open_embedded(tmp_path)
    assert path.read_bytes() == before


def test_a_damaged_segment_is_an_error(tmp_path: Path) -> None:
    with open_embedded(tmp_path) as store, store.writing() as writer:
        writer.observe("job", many(20_000))
    with (tmp_path / FILE).open(
        "r+b"
    ) as file:  # one bit in the middle of the data, and of a page of SQLite's
        middle = (tmp_path / FILE).stat().st_size // 2 // 4096 * 4096 + 2048
        file.seek(middle)
        byte = file.read(1)[0]
        file.seek(middle)
        file.write(bytes([byte ^ 1]))
    with open_embedded(tmp_path) as store, pytest.raises(StoreError, match=r"segment 1 .* damaged.*backup"):
        whole(store)


def test_a_truncated_file_is_an_error(tmp_path: Path) -> None:
    with open_embedded(tmp_path) as store, store.writing() as writer:
        writer.observe("job", many(20_000))
    os.truncate(tmp_path / FILE, (tmp_path / FILE).stat().st_size // 2)
    with pytest.raises(StoreError, match="damaged"), open_embedded(tmp_path) as store:
        whole(store)


@contextmanager
def unprivileged() -> Iterator[None]:
    """Root may write everywhere: be somebody else for a while."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def closed_folder() -> Iterator[Path]:
    """A store in a folder that others may enter and read but not write."""
    with TemporaryDirectory() as folder:
        home = Path(folder)
        with open_embedded(home) as store, store.writing() as writer:
            writer.observe("job", many(10))
        home.chmod(0o555)
        (home / FILE).chmod(0o444)
        yield home
        home.chmod(0o755)


def test_no_permission_to_write(closed_folder: Path) -> None:
    with unprivileged():
        with pytest.raises(StoreError, match="no permission"):
            open_embedded(closed_folder / "below")
        with pytest.raises(StoreError, match="no permission"), open_embedded(closed_folder) as store:
            store.writing().__enter__()


def test_the_error_of_who_may_not_read_names_the_command_that_helps(closed_folder: Path) -> None:
    with unprivileged(), pytest.raises(StoreError, match="forewarn config share GROUP"):
        open_embedded(closed_folder, read_only=True)


FILL = """
import resource, sys
from pathlib import Path
from forewarn.errors import StoreError
from forewarn.store.embedded import open_embedded
from tests.store.samples import many

resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
with open_embedded(Path(sys.argv[1])) as store:
    try:
        with store.writing() as writer:
            for first in range(1000, 100_000_000, 20_000):
                writer.observe("job", many(20_000, first=first), file="log")
    except StoreError as error:
        print(error)
    print(store.count(), sum(frame.height for frame in store.scan()))
"""


def fill(home: Path, file_bytes: int = resource.RLIM_INFINITY) -> list[str]:
    """Write to a store until it cannot take more; return the error message and the counts afterwards."""
    with open_embedded(home) as store, store.writing() as writer:
        writer.observe("job", many(1000))

    done = subprocess.run(
        [sys.executable, "-c", FILL, str(home), str(file_bytes)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    with open_embedded(home) as store:
        assert whole(store)["submit"].to_list() == list(range(1000))
        with store.writing() as writer:
            assert writer.observe("job", many(10, first=1000)).new == 10
    with closing(sqlite3.connect(home / FILE)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    return done.stdout.splitlines()


@pytest.mark.slow
def test_a_file_that_may_not_grow(tmp_path: Path) -> None:
    message, counts = fill(tmp_path, file_bytes=2 << 20)
    assert "full disk" in message
    assert counts == "1000 1000"


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("mount"), reason="only root can mount a small disk")
def test_a_full_disk(tmp_path: Path) -> None:
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", tmp_path], check=False).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        message, counts = fill(tmp_path / "home")
        assert "disk is full" in message
        assert "Make room" in message
        assert counts == "1000 1000"
    finally:
        subprocess.run(["umount", tmp_path], check=True)
