"""The thread of updates: what counts as success, what it says, and what ends the start."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event
from time import monotonic, sleep

import pytest

from forewarn.config import Config
from forewarn.config.serve import ServeConfig
from forewarn.errors import CollectedElsewhereError, UnreachableError, UsageError
from forewarn.operate.collector_round import CollectorRound, JobChanges
from forewarn.operate.service import updates as updates_module
from forewarn.operate.service.daily import DailyUpkeep
from forewarn.operate.service.readiness import STALE, readiness_of
from forewarn.operate.service.service import Service
from forewarn.operate.service.updates import Updates
from forewarn.operate.workspace import Workspace
from forewarn.store.base import ClusterFacts, Store
from forewarn.store.opening import open_people_store
from tests.operate.test_engine import job as job_of
from tests.operate.test_engine import new_request, promote, write_jobs


def publish(_store: Store, _changes: JobChanges) -> None:
    """Publish nothing."""


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    with Workspace(Config(home=tmp_path, scheduler="slurmrestd", slurmrestd="http://127.0.0.1:1")) as opened:
        opened.writing()
        yield opened


def wait_for(condition: Callable[[], bool]) -> None:
    until = monotonic() + 10
    while not condition():
        assert monotonic() < until
        sleep(0.02)


def failing(error: Exception) -> Callable[..., object]:
    """Return what takes the place of `collecting`, and fails."""

    @contextmanager
    def collecting(*_: object, **__: object) -> Iterator[None]:
        raise error
        yield

    return collecting


def run_with(
    workspace: Workspace, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> tuple[Updates, list[str]]:
    """Run the thread on a collector that cannot begin, until it has followed the store once."""
    lines: list[str] = []
    monkeypatch.setattr(updates_module, "collecting", failing(error))
    monkeypatch.setattr(updates_module, "FOLLOW_EVERY", 0.01)
    looks = Event()
    updates = Updates(workspace, publish, lines.append)
    look = updates.look_at_clusters

    def look_and_tell() -> None:
        look()
        looks.set()

    monkeypatch.setattr(updates, "look_at_clusters", look_and_tell)
    updates.start()
    assert looks.wait(10)
    looks.clear()
    assert looks.wait(10)
    updates.stop()
    return updates, lines


def test_a_slurm_that_is_away_from_the_start_becomes_stale(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    updates, lines = run_with(workspace, UnreachableError("nobody answers"), monkeypatch)
    assert updates.status.last_success_at is None
    assert workspace.slurm_trouble == "nobody answers"
    assert lines[0] == "warning: collector: nobody answers"
    updates.status.mode = "following"
    updates.status.started_at -= STALE
    assert not readiness_of(workspace, updates.status).parts[-1].works


def test_a_service_beside_a_collector_is_up_to_date(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = CollectedElsewhereError("stop it first", "alps")
    updates, lines = run_with(workspace, error, monkeypatch)
    assert updates.status.last_success_at is not None
    assert lines == ["another process collects alps; this one follows it"]
    assert (updates.status.troubles, workspace.slurm_trouble) == ({}, None)


def test_a_full_disk_is_no_trouble_of_slurm(workspace: Workspace) -> None:
    updates = Updates(workspace, publish, lambda _text: None)
    updates._note_round(CollectorRound(at=1, troubles={"live jobs": "OSError: no space left"}))
    assert workspace.slurm_trouble is None
    updates._note_round(CollectorRound(at=1, troubles={"live jobs": "away"}, slurm_trouble="away"))
    assert workspace.slurm_trouble == "away"


def test_a_closed_stderr_does_not_end_the_thread(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_text: str) -> None:
        raise ValueError("I/O operation on closed file")

    monkeypatch.setattr(updates_module, "collecting", failing(RuntimeError("broken")))
    monkeypatch.setattr(updates_module, "RETRY_EVERY", 0.01)
    monkeypatch.setattr(updates_module, "FOLLOW_EVERY", 0.01)
    updates = Updates(workspace, publish, broken)
    updates.start()
    wait_for(lambda: updates.status.errors["updates"] > 2)
    assert not updates.has_died
    updates.stop()
    assert not updates.has_died


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_dead_thread_is_not_ready(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    updates = Updates(workspace, publish)

    def end(**_: object) -> None:
        raise SystemExit

    monkeypatch.setattr(updates, "_collects", end)
    updates.start()
    wait_for(lambda: updates.has_died)
    assert not readiness_of(workspace, updates.status, has_died=updates.has_died).is_ready


def test_without_any_slurm_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    monkeypatch.setenv("PATH", str(tmp_path))
    with Workspace(Config(home=tmp_path)) as opened:
        opened.writing()
        updates = Updates(opened, publish, lines.append)
        updates.check_configuration()
        updates.start()
        wait_for(lambda: bool(lines))
        updates.stop()
    assert lines == [
        "no Slurm is configured: set slurmrestd, or FOREWARN_SCHEDULER=simulator; serving what the store has"
    ]


@pytest.mark.parametrize(
    "settings",
    [
        {"scheduler": "simulator", "simulator": "smal"},
        {"scheduler": "simulator", "simulator": "smal", "serve": ServeConfig(collect="never")},
        {"scheduler": "slurmrestd"},
    ],
)
def test_a_wrong_configuration_ends_the_start(tmp_path: Path, settings: dict[str, object]) -> None:
    service = Service(Config(home=tmp_path, **settings))  # type: ignore[arg-type]
    with pytest.raises(UsageError), service:
        pass
    assert not service.updates.has_died
    with pytest.raises(UsageError, match="closed"):
        service.workspace.reading()


def test_the_first_history_is_announced(workspace: Workspace) -> None:
    lines: list[str] = []
    updates = Updates(workspace, publish, lines.append)
    updates._engine_to_collect("alps")
    assert lines == ["collecting from alps", "reading the history of alps …"]
    assert readiness_of(workspace, updates.status).parts[0].detail == "reading history"
    updates._note_round(CollectorRound(at=1, behind=True, new_jobs=5))
    assert updates.status.is_reading_history
    updates._note_round(CollectorRound(at=2, new_jobs=5))
    assert not updates.status.is_reading_history
    assert lines[-1].startswith("up to date: 10 new jobs read")


def test_every_part_is_stopped_though_one_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    service = Service(Config(home=tmp_path))
    service.start()

    def broken() -> None:
        service.updates._stopped.set()
        raise OSError("cannot stop")

    monkeypatch.setattr(service.updates, "stop", broken)
    with pytest.raises(OSError, match="cannot stop"):
        service.stop()
    assert not service._erasures._thread.is_alive()
    assert not service._daily._thread.is_alive()


def test_a_stop_does_not_wait_for_a_long_deletion(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, end = Event(), Event()

    def long_deletion() -> None:
        begun.set()
        end.wait(20)

    monkeypatch.setattr("forewarn.operate.service.daily.FIRST_AFTER", 0.0)
    monkeypatch.setattr("forewarn.operate.service.daily.STOP_WITHIN", 0.05)
    with closing(open_people_store(workspace.config)) as people:
        daily = DailyUpkeep(workspace, people)
        monkeypatch.setattr(daily, "once", long_deletion)
        daily.start()
        assert begun.wait(10)
        at = monotonic()
        daily.stop()
        assert monotonic() - at < 5
        end.set()
        daily._thread.join()


def test_reading_the_clusters_never_waits_for_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with Service(Config(home=tmp_path)) as service:
        assert tuple(service.clusters) == ()
        with service.workspace.writing().writing() as writer:
            writer.describe_cluster("alps", ClusterFacts())
        wait_for(lambda: tuple(service.clusters) == ("alps",))
        assert service.notice(None, "17") is False, "nothing is collected here"
        monkeypatch.setattr(service.workspace, "reading", None)
        assert tuple(service.clusters) == ("alps",)


def test_a_promoted_model_does_not_wait_for_the_history(tmp_path: Path) -> None:
    with Workspace(Config(home=tmp_path)) as opened:
        store = opened.writing()
        with store.writing() as writer:
            writer.describe_cluster("alps", ClusterFacts())
        write_jobs(store, *(job_of(number) for number in range(20)))
        promote(tmp_path, 1)
        updates = Updates(opened, publish)
        engine = updates._own_engine("alps")
        at = opened.now()
        before = engine.assess_all([new_request(at)], at=at)[0]
        promote(tmp_path, 2)
        engine.follow_soon()
        same = engine.assess_all([new_request(at)], at=at)[0]
        engine.follow_models()
        after = engine.assess_all([new_request(at)], at=at)[0]
    assert (before.route.version, same.route.version, after.route.version) == (1, 1, 2)
