"""Erasure of a user: no byte of the home names the user, and nothing comes back."""

from __future__ import annotations

from pathlib import Path

import pytest

from forewarn.config import Config
from forewarn.errors import StoreError, UsageError
from forewarn.learn.registry.serving import Serving
from forewarn.operate.engine import Engine
from forewarn.operate.upkeep.erase import erase_user
from forewarn.operate.workspace import Workspace
from forewarn.store.opening import location_of, open_store
from tests.operate.test_engine import write_jobs
from tests.operate.upkeep.homes import AT, JOBS, answer, answer_of, day_job, everything_readable, make_home

pytestmark = pytest.mark.slow


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return make_home(tmp_path / "home")


def files_of(home: Path) -> dict[Path, bytes]:
    """All files but SQLite's index of its log, which readers write to."""
    paths = (path for path in home.rglob("*") if path.is_file() and not path.name.endswith("-shm"))
    return {path: path.read_bytes() for path in paths if path.stat().st_size}


def test_no_byte_of_the_home_names_the_user(config: Config) -> None:
    with Workspace(config) as workspace:
        answer(workspace.writing(), config.home)  # an online state is saved
        Engine(workspace.writing(), "alps", Serving(config.home / "models"), saves=True).follow(AT)
        assert b"zoe" in everything_readable(config.home)
        result = erase_user(workspace, "zoe", at=AT, by="root")
    left = everything_readable(config.home)
    assert b"zoe" not in left
    assert b"zoe".hex().encode() not in left
    assert left.count(b"ann") > 100, "others stay"
    assert (result.jobs, result.programs, result.assessments) == ({"alps": 40}, 1, 40)
    assert (result.entries.deleted, result.entries.renamed) == (1, 1)
    assert (result.cursors, result.rejected_rows, result.jobs_of_others) == (1, 1, 0)
    assert (result.files, result.models) == ([], ["alps.submit.generic"])
    assert result.pseudonym is not None
    with location_of(config).open_people() as people:
        lines = [entry.value for entry in people.entries("audit")]
    assert {"action": "threshold.set", "by": result.pseudonym} in lines, "what was done stays"
    assert {"action": "user.erase", "of": result.pseudonym, "by": "root"} in lines
    assert '"ann' in (config.home / "rejects" / "log-1.jsonl").read_text().replace("|ann|", '"ann')


def test_a_dry_run_changes_nothing(config: Config) -> None:
    with Workspace(config) as workspace:
        before = files_of(config.home)
        result = erase_user(workspace, "zoe", dry_run=True, at=AT)
        assert (result.jobs, result.assessments, result.pseudonym) == ({"alps": 40}, 40, None)
    assert files_of(config.home) == before


def test_history_that_is_read_again_does_not_bring_the_user_back(config: Config) -> None:
    with Workspace(config) as workspace:
        erase_user(workspace, "zoe", at=AT)
    with open_store(config) as store:
        write_jobs(store, *map(day_job, range(JOBS)))  # accounting is read again
        assert store.count() == JOBS - 40
        write_jobs(store, day_job(1000, user="zoe", submit=AT + 2, start=AT + 3, end=AT + 4))
        assert store.count() == JOBS - 40 + 1, "a job of later is recorded"
    with Workspace(config) as workspace:
        erase_user(workspace, "zoe", at=AT + 10, future=True)
        write_jobs(workspace.writing(), day_job(1001, user="zoe", submit=AT + 20))
        assert workspace.reading().count() == JOBS - 40
    assert b"zoe" not in everything_readable(config.home)


def test_the_key_is_private_and_needed(config: Config) -> None:
    with Workspace(config) as workspace:
        erase_user(workspace, "zoe", at=AT)
    key = config.home / "erasure.key"
    assert key.stat().st_mode & 0o777 == 0o600
    assert key in location_of(config).secret_files
    key.unlink()
    with open_store(config) as store, pytest.raises(StoreError, match=r"erasure\.key.*backup"):
        write_jobs(store, day_job(1))


def test_a_running_engine_forgets_the_user(config: Config) -> None:
    with Workspace(config) as workspace:
        store = workspace.writing()
        engine = Engine(store, "alps", Serving(config.home / "models"), clock=lambda: AT)
        engine.follow(AT)
        erase_user(workspace, "zoe", at=AT)
        engine.follow(AT)
        assert engine._histories is not None
        assert engine._histories.history_of("zoe").of("zoe").is_empty()
        assert answer_of(engine) == answer(store, config.home)


def test_what_others_wrote_is_reported_and_stays(config: Config) -> None:
    (config.home / "config.toml").write_text('slurm_user = "zoe"\n')
    with Workspace(config) as workspace:
        write_jobs(workspace.writing(), day_job(2000, user="ann", work_dir="/project/zoe/x"))
        result = erase_user(workspace, "zoe", at=AT)
        assert (result.jobs_of_others, result.files) == (1, ["config.toml"])
        assert workspace.reading().count() == JOBS - 40 + 1


def test_a_user_who_is_not_there(config: Config) -> None:
    with Workspace(config) as workspace:
        assert sum(erase_user(workspace, "nobody", at=AT).jobs.values()) == 0
        assert workspace.reading().count() == JOBS
        with pytest.raises(UsageError, match="name the user"):
            erase_user(workspace, " ")
