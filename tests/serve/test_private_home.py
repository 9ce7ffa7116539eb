"""What the commands keep is the owner's alone, whatever the umask; what was asked for by name is not."""

from __future__ import annotations

import grp
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn.errors import UsageError
from tests.learn.bundles import tiny_bundle
from tests.serve.conftest import Forewarn, swf_line, write_swf


@pytest.fixture(autouse=True)
def _open_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def wider(home: Path, allowed: int) -> list[str]:
    """Whatever in a home has a right that it should not have."""
    there = (home, *home.rglob("*"))
    return [f"{path}: {path.stat().st_mode:o}" for path in there if path.stat().st_mode & 0o777 & ~allowed]


@pytest.mark.slow
def test_the_home_and_all_in_it(forewarn: Forewarn, home: Path, tmp_path: Path) -> None:
    log = write_swf(tmp_path / "log.swf", swf_line(1), "torn line", swf_line(2))
    assert forewarn("ingest", "--skip-bad", f"swf:{log}").code == 0
    assert forewarn("config", "init").code == 0
    tiny_bundle().save(tmp_path / "bundle")
    assert forewarn("models", "import", tmp_path / "bundle").code == 0
    assert {path.name for path in home.iterdir()} == {"config.toml", "forewarn.db", "models", "rejects"}
    assert wider(home, 0o700) == []
    export = ("models", "export", "alps.submit.generic", "-o")
    for name, command in (("table.parquet", ("features", "-o")), ("model.tar.gz", export)):
        assert forewarn(*command, tmp_path / name).code == 0
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o644, "as the umask says: it was asked for"
    assert forewarn(*export, tmp_path / "model").code == 0
    assert stat.S_IMODE((tmp_path / "model/manifest.json").stat().st_mode) == 0o644
    assert os.umask(0o022) == 0o022, "the umask is the caller's again"
    # Shared on purpose, and taken back.
    group = grp.getgrgid(os.getegid()).gr_name
    result = forewarn("config", "share", group)
    assert (result.code, result.err) == (0, f"{home}: group {group} can read it now\n")
    assert wider(home, 0o750) == []
    assert forewarn("ingest", f"swf:{write_swf(tmp_path / 'more.swf', swf_line(3))}").code == 0
    assert stat.S_IMODE((home / "forewarn.db-wal").stat().st_mode) == 0o640
    assert forewarn("config", "share", "--off").code == 0
    assert wider(home, 0o700) == []


def test_a_secret_is_not_shared(forewarn: Forewarn, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home.mkdir()
    monkeypatch.setenv("FOREWARN_SLURM_TOKEN", "secret")
    group = grp.getgrgid(os.getegid()).gr_name
    result = forewarn("config", "share", group)
    assert result.code == UsageError.exit_code
    assert "slurm_token_file" in result.err
    assert "secret" not in result.err.replace("a secret", "")
    assert forewarn("config", "share").code == UsageError.exit_code
    assert forewarn("config", "share", group, "--off").code == UsageError.exit_code
