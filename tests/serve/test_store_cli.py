"""`forewarn store`: what a person types for upkeep."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.operate.upkeep.homes import make_home
from tests.serve.conftest import Forewarn

pytestmark = pytest.mark.slow


@pytest.fixture
def filled(home: Path) -> Path:
    make_home(home)
    return home


@pytest.mark.usefixtures("filled")
def test_info(forewarn: Forewarn) -> None:
    shown = forewarn("store", "info")
    assert (shown.code, "400 job" in shown.out, "history for ever" in shown.out) == (0, True, True)
    found = json.loads(forewarn("store", "info", "--json").out)
    assert found["clusters"]["alps"]["records"] == {"job": 400, "node": 1, "program": 1}
    assert found["entries"] == {"audit": 2, "session": 2}


@pytest.mark.usefixtures("filled")
def test_prune_asks_first_and_says_what_it_did(forewarn: Forewarn) -> None:
    refused = forewarn("store", "prune", "--older-than", "1day")
    assert (refused.code, "--yes" in refused.err) == (2, True)
    planned = forewarn("store", "prune", "--older-than", "1day", "--dry-run")
    assert (planned.code, "nothing is old enough" in planned.err or "would delete" in planned.err) == (
        0,
        True,
    )
    assert forewarn("store", "prune", "--older-than", "soon").code == 2
    done = forewarn("store", "prune", "--older-than", "1day", "--yes", "--json")
    assert (done.code, json.loads(done.out)["dry_run"]) == (0, False)


@pytest.mark.usefixtures("filled")
def test_erase_user(forewarn: Forewarn) -> None:
    assert forewarn("store", "erase-user", "zoe").code == 2, "nobody confirmed it"
    assert "would delete 40 jobs" in forewarn("store", "erase-user", "zoe", "--dry-run").err
    done = forewarn("store", "erase-user", "zoe", "--yes")
    assert (done.code, "deleted 40 jobs" in done.err, "forewarn train" in done.err) == (0, True, True)
    nobody = forewarn("store", "erase-user", "nosuch", "--yes")
    assert (nobody.code, "no trace of that name" in nobody.err) == (0, True)
    again = forewarn("store", "erase-user", "zoe", "--yes", "--json")
    assert json.loads(again.out)["jobs"] == {"alps": 0}
    assert forewarn("jobs", "-u", "zoe", "--json").out.strip() in ("", "[]")


def test_backup_restore_and_upgrade(forewarn: Forewarn, filled: Path, tmp_path: Path) -> None:
    saved = forewarn("store", "backup", tmp_path / "b.tar.gz")
    assert (saved.code, "all hashes" in saved.err) == (0, True)
    assert forewarn("store", "backup", tmp_path / "b.tar.gz").code == 2
    assert forewarn("store", "restore", tmp_path / "b.tar.gz").code == 2, "the home is not empty"
    done = forewarn("store", "restore", tmp_path / "b.tar.gz", "--replace", "--yes", "--json")
    assert done.code == 0
    assert Path(json.loads(done.out)["moved_aside"]).is_dir()
    (tmp_path / "bad.tar.gz").write_bytes(b"no archive")
    bad = forewarn("store", "restore", tmp_path / "bad.tar.gz", "--home", tmp_path / "new")
    assert (bad.code, "bad.tar.gz" in bad.err) == (5, True)
    upgraded = forewarn("store", "upgrade")
    assert (upgraded.code, "nothing to migrate; checked 402 records" in upgraded.err) == (0, True)
    assert "alps.submit.generic serves" in upgraded.err
    assert filled.stat().st_mode & 0o777 == 0o700


def test_without_a_store(forewarn: Forewarn, tmp_path: Path) -> None:
    assert forewarn("store", "backup", tmp_path / "b.tar.gz").code == 2
    assert forewarn("store", "upgrade").code == 2
    assert forewarn("store", "prune", "--yes").code == 0
    assert forewarn("store", "info").code == 0
