"""`-o FILE` of `features` and `simulate`: whole or not at all, and never over something that is no file."""

from __future__ import annotations

import os
import resource
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from forewarn.errors import ForewarnError, StoreError, UsageError
from forewarn.features import table
from forewarn.sources.simulator import WRITERS
from tests.serve.conftest import Forewarn

SIMULATE = ("simulate", "--scenario", "small", "--jobs", "1000")
COMMANDS = {"features": ("features",)} | {name: (*SIMULATE, "--format", name) for name in WRITERS}


@pytest.fixture
def filled(forewarn: Forewarn) -> Forewarn:
    result = forewarn(*SIMULATE, "--ingest")
    assert result.code == 0, result.err
    return forewarn


@contextmanager
def files_up_to(size: int) -> Iterator[None]:
    """Files of this process cannot grow beyond a size: as near to a full disk as one gets without root."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("kind", ["fifo", "folder", "device", "link"])
def test_what_is_no_plain_file_is_left_alone(
    command: str, kind: str, filled: Forewarn, tmp_path: Path
) -> None:
    target = tmp_path / "out" / "target"
    target.parent.mkdir()
    if kind == "fifo":
        os.mkfifo(target)
    elif kind == "folder":
        target.mkdir()
    elif kind == "link":
        target.symlink_to("/dev/null")
    else:
        try:
            os.mknod(target, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        except PermissionError:
            pytest.skip("only root makes a device")
    before = target.lstat()
    result = filled(*COMMANDS[command], "-o", target)
    assert result.code == UsageError.exit_code
    assert str(target) in result.err
    assert (target.lstat().st_mode, target.lstat().st_ino) == (before.st_mode, before.st_ino)
    assert list(target.parent.iterdir()) == [target]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_that_cannot_be_written_whole(command: str, filled: Forewarn, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    target = folder / "file"
    target.write_text("what was there")
    with files_up_to(40_000):
        result = filled(*COMMANDS[command], "-o", target)
    assert result.code == ForewarnError.exit_code
    assert result.err.splitlines()[-1] == f"forewarn: error: {target}: cannot be written: File too large"
    assert list(folder.iterdir()) == [target]
    assert target.read_text() == "what was there"


def test_trouble_with_the_store_is_not_called_trouble_with_the_file(
    filled: Forewarn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(*_: object, **__: object) -> None:
        raise StoreError("segment 1 is damaged")

    monkeypatch.setattr(table, "read_inputs", damaged)
    result = filled("features", "-o", tmp_path / "table.parquet")
    assert (result.code, result.err) == (StoreError.exit_code, "forewarn: error: segment 1 is damaged\n")
    assert not list(tmp_path.glob("table*"))
