"""The home is its owner's alone, or a group's to read: modes, and a reader who really is somebody else."""

from __future__ import annotations

import grp
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from forewarn.errors import UsageError
from forewarn.sharing import is_shared, private_files, share, unshare, work_in
from forewarn.store.database import leave_readable
from forewarn.store.embedded import FILE, open_embedded
from tests.store.samples import many

IS_ROOT = os.geteuid() == 0
MEMBERS = 65534 if IS_ROOT else os.getegid()  # the group that it is shared with


def modes(home: Path) -> dict[str, str]:
    """The mode of everything in a home."""
    there = (home, *home.rglob("*"))
    return {
        str(path.relative_to(home)): f"{stat.S_IMODE(path.stat().st_mode):o}"
        for path in there
        if path.exists()
    }


def fill(home: Path, first: int = 1) -> None:
    with open_embedded(home) as store, store.writing() as writer:
        writer.observe("job", many(10, first=first))


READER = """
import os, sys
from pathlib import Path
from forewarn.errors import StoreError
from forewarn.store.embedded import open_embedded

home, group, *others = sys.argv[1:]
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(int(group))
    os.setuid(65534)
try:
    with open_embedded(Path(home), read_only=True) as store:
        print(store.count())
        for _ in others:  # a line for each that somebody else has written meanwhile
            sys.stdout.flush()
            sys.stdin.readline()
            print(store.count())
    with open_embedded(Path(home)) as store, store.writing() as writer:
        writer.set_cursor("x", "y")
    print("written")
except (StoreError, PermissionError) as error:
    print(type(error).__name__)
"""


@contextmanager
def reading(home: Path, group: int, *others: str) -> Iterator[subprocess.Popen[str]]:
    """A process of another user of that group; who is not root gives up their own right to write instead."""
    before = {} if IS_ROOT else {path: path.stat().st_mode for path in (home, *home.iterdir())}
    for path, mode in before.items():
        path.chmod(mode & 0o7555)
    command = [sys.executable, "-c", READER, str(home), str(group), *others]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as process:  # type: ignore[call-overload]
        yield process
    for path, mode in before.items():
        path.chmod(mode)


def read(home: Path, group: int = MEMBERS) -> list[str]:
    """What another user gets who reads, and then tries to write."""
    with reading(home, group) as process:
        output, _ = process.communicate(timeout=60)
    return output.split()


@pytest.fixture
def home() -> Iterator[Path]:
    """Below a folder that everybody may enter, as pytest's own is not."""
    with TemporaryDirectory() as above:
        Path(above).chmod(0o755)
        yield Path(above) / "home"


@pytest.fixture(autouse=True)
def _open_umask() -> Iterator[None]:
    before = os.umask(0o000)
    yield
    os.umask(before)


def test_all_is_private_whatever_the_umask(home: Path) -> None:
    with open_embedded(home) as store:
        with store.writing() as writer:
            writer.observe("job", many(10))
        assert modes(home) == {".": "700", FILE: "600", f"{FILE}-wal": "600", f"{FILE}-shm": "600"}
    assert modes(home) == {".": "700", FILE: "600"}


def test_what_an_older_version_left_open_is_closed(home: Path) -> None:
    fill(home)
    (home / "models").mkdir()
    home.chmod(0o755)
    (home / FILE).chmod(0o644)
    (home / "models").chmod(0o777)
    fill(home, 20)
    assert modes(home) == {".": "755", FILE: "600", "models": "700"}, "the folder may be so by choice"


@pytest.mark.slow
def test_a_group_reads_and_no_writer_is_there(home: Path) -> None:
    fill(home)
    share(home, grp.getgrgid(MEMBERS).gr_name)
    leave_readable(home / FILE)
    assert modes(home) == {".": "2750", FILE: "640", f"{FILE}-wal": "640", f"{FILE}-shm": "640"}
    assert (home / FILE).stat().st_gid == MEMBERS
    assert read(home) == ["10", "StoreError"]
    fill(home, 100)  # what a writer leaves when it has gone
    assert modes(home) == {".": "2750", FILE: "640", f"{FILE}-wal": "640", f"{FILE}-shm": "640"}
    assert read(home) == ["20", "StoreError"]


@pytest.mark.skipif(not IS_ROOT, reason="a user cannot be a reader and a writer at once: CI runs it as root")
def test_a_reader_sees_what_is_written_meanwhile(home: Path) -> None:
    fill(home)
    share(home, grp.getgrgid(MEMBERS).gr_name)
    leave_readable(home / FILE)
    with reading(home, MEMBERS, "one") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "10\n"
        fill(home, 100)
        output, _ = process.communicate("go on\n", timeout=60)
    assert output.split() == ["20", "StoreError"]


def test_nobody_else_reads(home: Path) -> None:
    fill(home)
    share(home, grp.getgrgid(MEMBERS).gr_name)
    leave_readable(home / FILE)
    if IS_ROOT:
        assert read(home, 54321) in (["StoreError"], ["PermissionError"])
    unshare(home)
    assert (modes(home)["."], modes(home)[FILE]) == ("700", "600")
    if IS_ROOT:
        assert read(home) in (["StoreError"], ["PermissionError"])


def test_files_created_later_are_shared_too(home: Path) -> None:
    fill(home)
    with private_files():
        work_in(home)
        (home / "before").mkdir()
    share(home, grp.getgrgid(MEMBERS).gr_name)
    with private_files():
        work_in(home)
        (home / "after").mkdir()
        (home / "after/file").touch()
    assert is_shared(home)
    assert modes(home)["before"] == "2750"
    assert (modes(home)["after"], modes(home)["after/file"]) == ("2750", "640")
    assert (home / "after/file").stat().st_gid == MEMBERS


def test_links_and_secrets_are_left_alone(home: Path, tmp_path: Path) -> None:
    fill(home)
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (home / "link").symlink_to(tmp_path / "elsewhere")
    (home / "token").touch(0o600)
    share(home, grp.getgrgid(MEMBERS).gr_name, but=[home / "token"])
    assert stat.S_IMODE((tmp_path / "elsewhere").stat().st_mode) == 0o700
    assert modes(home)["token"] == "600"


def test_what_cannot_be_shared(home: Path) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        share(home, grp.getgrgid(MEMBERS).gr_name)
    with pytest.raises(UsageError, match="no group"):
        share(home, "no-such-group-here")
