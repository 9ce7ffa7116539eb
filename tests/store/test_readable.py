"""Reading a store where SQLite cannot make the files that it keeps beside a write-ahead log."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn.config import Config
from forewarn.errors import StoreBusyError
from forewarn.store.embedded import FILE, open_embedded
from forewarn.store.opening import location_of, open_store
from tests.store.samples import many


@pytest.fixture
def seen(tmp_path: Path) -> Iterator[Path]:
    """The home (`home` beside it) as a read-only mount shows it."""
    home, seen = tmp_path / "home", tmp_path / "seen"
    home.mkdir()
    seen.mkdir()
    if os.geteuid() != 0 or subprocess.run(["mount", "--bind", home, seen], check=False).returncode:
        pytest.skip("no right to mount here: CI is root")
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", seen], check=True)
        yield seen
    finally:
        subprocess.run(["umount", "--lazy", seen], check=True)


@pytest.fixture
def temp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temp folder that only this test uses."""
    folder = tmp_path / "temp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_without_a_log(tmp_path: Path, seen: Path, temp: Path) -> None:
    with open_embedded(tmp_path / "home") as store, store.writing() as writer:
        writer.observe("job", many(10))
    assert names(seen) == [FILE]
    assert location_of(Config(home=tmp_path / "home")).may_write
    assert not location_of(Config(home=seen)).may_write
    with open_embedded(seen, read_only=True) as reader:
        assert (reader.count(), reader.may_write) == (10, False)
        assert names(temp) == [], "read in its place"
        with location_of(Config(home=seen)).private_copy(reader) as copy, open_store(copy) as own:
            with own.writing() as writer:
                writer.observe("job", many(10, first=100))
            assert (own.count(), reader.count()) == (20, 10)
    assert names(temp) == []


def test_a_log_that_was_never_taken_over(tmp_path: Path, seen: Path, temp: Path) -> None:
    """As after a crash: what was written last stands in the log alone, and its index is gone."""
    home, kept = tmp_path / "home", tmp_path / "kept"
    with open_embedded(home) as store:
        for first in (1, 100):
            with store.writing() as writer:
                writer.observe("job", many(10, first=first))
        shutil.copytree(home, kept)
    for name in (FILE, f"{FILE}-wal"):
        shutil.copy(kept / name, home / name)
    assert names(seen) == [FILE, f"{FILE}-wal"]
    with open_embedded(seen, read_only=True) as reader:
        assert (reader.count(), len(names(temp))) == (20, 1)
    assert names(temp) == [], "the copy is gone"


def test_what_is_written_through_another_mount_is_noticed(tmp_path: Path, seen: Path) -> None:
    with open_embedded(tmp_path / "home") as store, store.writing() as writer:
        writer.observe("job", many(10))
    with open_embedded(seen, read_only=True) as reader:
        assert reader.count() == 10
        with open_embedded(tmp_path / "home") as store, store.writing() as writer:
            writer.observe("job", many(10, first=100))
        with pytest.raises(StoreBusyError, match="try again"):
            reader.count()
    with open_embedded(seen, read_only=True) as reader:
        assert reader.count() == 20
