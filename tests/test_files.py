"""Files are written whole, under names that nobody can foresee, and through no link."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

import polars as pl
import pytest

from forewarn.errors import ForewarnError, UsageError
from forewarn.files import head_of, open_no_link, whole_file, whole_folder, write_file
from forewarn.sharing import private_files


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(autouse=True)
def _usual_umask() -> object:
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_a_planted_partial_file_is_not_written_through(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "out.txt.partial").symlink_to(victim)
    write_file(tmp_path / "out.txt", "new")
    assert victim.read_text() == "mine"
    assert (tmp_path / "out.txt").read_text() == "new"


def test_a_link_in_the_place_of_the_file_is_replaced_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "out.txt").symlink_to(victim)
    write_file(tmp_path / "out.txt", "new")
    assert victim.read_text() == "mine"
    assert not (tmp_path / "out.txt").is_symlink()


def test_names_are_unique_and_gone_after_a_failure(tmp_path: Path) -> None:
    names = set()
    for _ in range(3):
        with suppress(RuntimeError), whole_file(tmp_path / "out") as partial:
            names.add(partial.name)
            raise RuntimeError
    assert len(names) == 3
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_was_swapped_is_not_put_in_place(tmp_path: Path) -> None:
    (tmp_path / "planted").write_text("theirs")
    writing = whole_file(tmp_path / "out")
    partial = writing.__enter__()
    partial.unlink()
    partial.symlink_to(tmp_path / "planted")
    with pytest.raises(ForewarnError, match="replaced"):
        writing.__exit__(None, None, None)
    assert not (tmp_path / "out").exists()


def test_what_writes_by_name_keeps_the_file(tmp_path: Path) -> None:
    with whole_file(tmp_path / "out.parquet") as partial:
        pl.LazyFrame({"a": [1]}).sink_parquet(partial)
    assert pl.read_parquet(tmp_path / "out.parquet").height == 1


def test_modes(tmp_path: Path) -> None:
    with private_files():
        write_file(tmp_path / "asked", "")
        write_file(tmp_path / "kept", "", private=True)
        (tmp_path / "other").mkdir()
        with whole_folder(tmp_path / "folder", private=True) as partial:
            (partial / "file").touch(0o644)
            (partial / "file").chmod(0o644)  # as copied from elsewhere
        with whole_folder(tmp_path / "export") as partial:
            (partial / "file").touch(0o600)
    assert [mode(tmp_path / name) for name in ("asked", "kept", "other")] == [0o644, 0o600, 0o700]
    assert [mode(tmp_path / name) for name in ("folder", "folder/file")] == [0o700, 0o600]
    assert [mode(tmp_path / name) for name in ("export", "export/file")] == [0o755, 0o644]
    (tmp_path / "after").touch()
    assert mode(tmp_path / "after") == 0o644, "the umask is the caller's again"


def test_a_folder_is_not_begun_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim/precious").touch()
    (tmp_path / "out.partial").symlink_to(tmp_path / "victim")
    with whole_folder(tmp_path / "out") as partial:
        (partial / "file").touch()
    assert [path.name for path in (tmp_path / "victim").iterdir()] == ["precious"]
    with pytest.raises(UsageError), whole_folder(tmp_path / "out"):
        pass


def test_files_that_stay_open_are_no_links(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with pytest.raises(OSError, match="symbolic"):
        open(tmp_path / "link", "a", opener=open_no_link)  # noqa: SIM115
    assert not (tmp_path / "target").exists()


def test_only_plain_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_bytes(b"abc")
    assert head_of(tmp_path / "pipe", 3) is None
    assert head_of(Path("/dev/zero"), 3) is None
    assert head_of(tmp_path / "file", 2) == b"ab"
