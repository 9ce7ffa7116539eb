"""Deletion by age: what goes, what stays, and that answers afterwards are those of a younger store."""

from __future__ import annotations

import getpass
import threading
import time
from pathlib import Path

import polars as pl
import pytest

from forewarn.config import Config
from forewarn.errors import StoreBusyError, UsageError
from forewarn.features.online import OnlineFeatures
from forewarn.job.outcomes import POLICIES
from forewarn.learn.registry.serving import Serving
from forewarn.operate.access.audit import audit_lines
from forewarn.operate.engine import Engine
from forewarn.operate.service.daily import DailyUpkeep
from forewarn.operate.upkeep import patience
from forewarn.operate.upkeep.ages import parse_age
from forewarn.operate.upkeep.prune import prune
from forewarn.operate.upkeep.windows import windows
from forewarn.operate.workspace import Workspace
from forewarn.store.embedded import open_embedded
from forewarn.store.opening import location_of, open_store
from tests.operate.test_engine import NOW, write_jobs
from tests.operate.upkeep.homes import AT, DAY, JOBS, answer, answer_of, day_job, fill, make_home
from tests.store.samples import many

pytestmark = pytest.mark.slow


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return make_home(tmp_path / "home")


def job_numbers(workspace: Workspace) -> list[int]:
    frames = list(workspace.reading().scan(columns=["job_id"]))
    return sorted(int(one) for frame in frames for one in frame["job_id"])


def test_old_jobs_go_and_a_dry_run_says_how_many(config: Config) -> None:
    with Workspace(config) as workspace:
        planned = prune(workspace, history_kept=100, dry_run=True, at=AT)
        assert job_numbers(workspace) == list(range(JOBS)), "nothing is changed"
        done = prune(workspace, history_kept=100, at=AT)
        # Jobs and assessments of 300 days, one program, two former states of a node.
        assert (planned.jobs, done.jobs) == ({"alps": 300}, {"alps": 300})
        assert (planned.assessments, done.assessments) == (300, 300)
        assert (planned.programs, done.programs, done.observations) == (1, 1, 2)
        assert planned.entries == done.entries == {"session": 1, "audit": 1}
        assert job_numbers(workspace) == list(range(300, JOBS))
        store = workspace.reading()
        assert store.count() == 100
        assert [frame["state"].to_list() for frame in store.scan("node")] == [["C"]], (
            "the current state stays"
        )
        assert store.assessments(columns=["made_at"])["made_at"].min() == NOW + 300 * DAY
        assert prune(workspace, history_kept=100, at=AT).is_empty
    with location_of(config).open_people() as people:
        line, kept = audit_lines(people)  # neither the dry run nor the empty one is an action
    assert (kept.user, line.action) == ("zoe", "store.prune")
    assert (line.user, line.method, line.result) == (getpass.getuser(), "command", "done")
    assert line.details is not None
    assert line.details["jobs"] == done.jobs
    assert line.details["entries"] == {"session entries": 1, "audit entries": 1}


def test_without_a_setting_history_is_kept_for_ever(config: Config) -> None:
    with Workspace(config) as workspace:
        result = prune(workspace, at=AT)
        assert (result.jobs, result.history_before, result.assessments) == ({}, None, 0)
        assert len(job_numbers(workspace)) == JOBS


def test_live_jobs_stay_and_lost_ones_go(config: Config) -> None:
    live = day_job(1000, submit=AT - 30 * DAY, start=None, end=None, outcome=None)
    lost = day_job(1001, submit=AT - 90 * DAY, start=None, end=None, outcome=None)
    long_run = day_job(1002, submit=AT - 50 * DAY, start=AT - 50 * DAY, end=AT - 5 * DAY)
    with Workspace(config) as workspace:
        write_jobs(workspace.writing(), live, lost, long_run)
        prune(workspace, history_kept=10, at=AT)
        assert set(job_numbers(workspace)) - set(range(JOBS)) == {1000, 1002}


def test_answers_are_those_of_a_store_that_began_later(config: Config, tmp_path: Path) -> None:
    later = Config(home=tmp_path / "later")
    with open_store(later) as store:
        fill(store, range(300, JOBS))
        expected = OnlineFeatures.from_history(store, "alps", POLICIES["wasted"], until=AT)
    with Workspace(config) as workspace:
        before = answer(workspace.writing(), config.home)
        prune(workspace, history_kept=100, at=AT)
        after = answer(workspace.writing(), config.home)
        found = OnlineFeatures.from_history(workspace.reading(), "alps", POLICIES["wasted"], until=AT)
    assert before != after, "the test would be empty"
    assert (found.state.cluster == expected.state.cluster).all()
    rows = [
        {int(key): tuple(row) for key, row in zip(one.state.key, one.state.entity, strict=True) if key}
        for one in (found, expected)
    ]
    assert str(rows[0]) == str(rows[1]), "features are computed from what is left, as in batch"


@pytest.mark.parametrize("saves", [False, True])
def test_an_engine_of_a_running_process_notices(config: Config, saves: bool) -> None:
    with Workspace(config) as workspace:
        store = workspace.writing()
        engine = Engine(store, "alps", Serving(config.home / "models"), saves=saves, clock=lambda: AT)
        engine.follow(AT)
        prune(workspace, history_kept=100, at=AT)
        engine.follow(AT)
        assert answer_of(engine) == answer(store, config.home)
        write_jobs(store, day_job(JOBS))  # and it goes on following
        engine.follow(AT + 2 * DAY)
        assert "400" in {one for frame in store.scan(columns=["job_id"]) for one in frame["job_id"]}


def test_it_runs_beside_a_writer_and_frees_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forewarn.operate.upkeep.windows.WINDOW_JOBS", 5_000)
    config = Config(home=tmp_path)
    with open_store(config) as store:
        fill(store, range(10))
        with store.writing() as writer:
            writer.observe("job", many(100_000, cluster="alps"))
        assert len(windows(store, "alps")) >= 20
    before = (tmp_path / "forewarn.db").stat().st_size
    stopped, written, errors = threading.Event(), [0], []

    def write() -> None:
        try:
            with open_store(config) as store:
                while not stopped.wait(0.02):  # who writes without a pause lets nobody else write
                    with store.writing() as writer:
                        writer.observe("job", many(10, first=10**9 + 10 * written[0], cluster="alps"))
                    written[0] += 1
        except Exception as error:  # the test shows it
            errors.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        with Workspace(config) as workspace:
            result = prune(workspace, history_kept=3650, at=10**9)
    finally:
        stopped.set()
        thread.join()
    assert not errors
    assert written[0], "the writer had its turns"
    assert result.jobs == {"alps": 100_000}
    with open_store(config) as store:
        assert store.count() == 10 + 10 * written[0]
        store.reclaim()
        assert pl.concat(store.scan(columns=["submit"])).height == store.count()
    assert (tmp_path / "forewarn.db").stat().st_size < before / 2


@pytest.mark.parametrize("text", ["", "0", "0days", "two years", "-3days", "3 fortnights", "1e9", "9999999"])
def test_what_is_no_age(text: str) -> None:
    with pytest.raises(UsageError, match="not an age"):
        parse_age(text)


def test_a_writer_who_holds_the_store_for_long_only_delays_it(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each try of a write gives up after 0.2 s here; the writer beside holds the store for 1.5 s."""
    holds, release = threading.Event(), threading.Event()

    def write() -> None:
        with open_store(config) as store, store.writing() as writer:
            writer.set_cursor("beside", "1")
            holds.set()
            release.wait(10)

    beside = threading.Thread(target=write)
    beside.start()
    assert holds.wait(10)
    threading.Timer(1.5, release.set).start()
    with open_embedded(config.home, busy_seconds=0.2) as impatient:
        with pytest.raises(StoreBusyError), impatient.writing():
            pass
        workspace = Workspace(config)
        monkeypatch.setattr(workspace, "writing", lambda: impatient)
        begin = time.monotonic()
        assert prune(workspace, history_kept=100, at=AT).jobs == {"alps": 300}
        assert time.monotonic() - begin > 0.5, "it has waited"
        workspace.close()
    beside.join()


def test_patience_has_an_end(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "LONGEST_WAIT", 0.5)
    with (
        open_store(config) as other,
        other.writing() as writer,
        open_embedded(config.home, busy_seconds=0.1) as store,
    ):
        writer.set_cursor("beside", "1")
        with pytest.raises(StoreBusyError), patience.writing_patiently(store):
            pass


def test_the_daily_upkeep_uses_the_open_entries(config: Config) -> None:
    with location_of(config).open_people() as people, Workspace(config) as workspace:
        people.add("session", {"user": "ann"}, at=5)
        DailyUpkeep(workspace, people).once()
        assert all(entry.at > 5 for entry in people.entries("session"))
        (line,) = audit_lines(people, actions=["store.prune"])
    assert line.method == "service"
    assert line.details is not None
    assert line.details["entries"]["session entries"] == 1
