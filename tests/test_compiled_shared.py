"""What was compiled at the installation is taken by its users, where it is as safe as the code beside it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from forewarn import compiled


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "shared" / "kernel-1"
    (place / "sub").mkdir(parents=True, mode=0o755)
    (place / "sub" / "run.nbi").write_bytes(b"index")
    for path in (tmp_path / "shared", *(tmp_path / "shared").rglob("*")):
        path.chmod(0o755)
        os.chown(path, Path(compiled.__file__).stat().st_uid, -1)
    monkeypatch.setattr(compiled, "SHARED", tmp_path / "shared")
    return place


def test_it_is_taken(shared: Path, tmp_path: Path) -> None:
    mine = tmp_path / shared.name
    mine.mkdir()
    compiled._take_shared(mine)
    assert (mine / "sub" / "run.nbi").read_bytes() == b"index"


def test_nothing_is_there(shared: Path, tmp_path: Path) -> None:
    other = tmp_path / "kernel-2"
    other.mkdir()
    compiled._take_shared(other)
    assert not any(other.iterdir())


@pytest.mark.parametrize("what", ["others may write", "a link", "another owner"])
def test_what_others_could_have_put_there_is_left(what: str, shared: Path, tmp_path: Path) -> None:
    """Numba runs what it finds in its cache."""
    file = shared / "sub" / "run.nbi"
    if what == "others may write":
        file.parent.chmod(0o777)
    elif what == "a link":
        (shared / "link").symlink_to(file)
    elif os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    else:
        os.chown(file, Path(compiled.__file__).stat().st_uid + 1, -1)
    mine = tmp_path / shared.name
    mine.mkdir()
    compiled._take_shared(mine)
    assert not any(mine.iterdir())
