"""The engine: many threads query it while history arrives and models change; each answer is consistent."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from forewarn.assess.assessment import Assessment
from forewarn.assess.champions import Champions
from forewarn.config import Config
from forewarn.errors import StoreError
from forewarn.features.online import OnlineFeatures
from forewarn.features.snapshot import bring_up_to_date
from forewarn.job.columns import to_frame
from forewarn.job.outcomes import POLICIES
from forewarn.job.record import Job, Observation, Partition
from forewarn.learn.registry.manifest import Manifest
from forewarn.learn.registry.serving import ModelName, Serving
from forewarn.operate.check_scripts import check_scripts
from forewarn.operate.engine import Engine
from forewarn.operate.one_shot import stored_assessor
from forewarn.operate.workspace import Workspace
from forewarn.store.base import ClusterFacts, Store
from forewarn.store.opening import open_store
from tests.learn.bundles import FACTS, tiny_bundle

pytestmark = pytest.mark.slow

NOW = 1_800_000_000
USERS = ("ann", "bob", "cy", "dan")
THREADS = 8


def job(number: int, *, user: str | None = None, outcome: str | None = "completed", **fields: object) -> Job:
    submit = NOW + 60 * number
    ended = {} if outcome is None else {"start": submit + 5, "end": submit + 50}
    usual = {
        **{"user": user or USERS[number % 4], "name": f"fit_{number % 7}", "work_dir": "/home/x/fit"},
        **{"cpus_asked": 1 + number % 3, "nodes_asked": 1, "memory_asked": 1 << 30, "memory_per": "node"},
        **{"time_limit": 3600, "partition": "main", "outcome": outcome, **ended},
    }
    return Job(**({"cluster": "alps", "job_id": str(number), "submit": submit} | usual | fields))  # type: ignore[arg-type]


def outcome_of(number: int) -> str:
    return "failed" if number % 4 == 0 or number % 11 == 0 else "completed"


def write_jobs(store: Store, *jobs: Job) -> None:
    observations = [
        Observation(seen_at=one.end or one.submit, source="test", reconstructed=False, record=one)
        for one in jobs
    ]
    with store.writing() as writer:
        writer.observe("job", to_frame(observations))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def store(home: Path) -> Iterator[Store]:
    with open_store(Config(home=home)) as opened:
        with opened.writing() as writer:
            writer.describe_cluster("alps", ClusterFacts())
        write_jobs(opened, *(job(n, outcome=outcome_of(n)) for n in range(600)))
        yield opened


def promote(home: Path, version: int) -> None:
    """Let another model serve; each predicts another probability of the same job."""
    serving = Serving(home / "models")
    folder = home / "models" / "made" / str(version)
    manifest = tiny_bundle(created=1_700_000_000 + version).save(folder)
    copy = serving.copy_of(manifest.id)
    if not copy.exists():
        copy.parent.mkdir(parents=True, exist_ok=True)
        folder.rename(copy)
    serving.point(
        ModelName(*(FACTS[name] for name in ("cluster", "phase", "feature_set"))), version, manifest.id
    )
    assert Manifest.read(copy).id == manifest.id


def engine_of(store: Store, home: Path, *, saves: bool = False) -> Engine:
    return Engine(store, "alps", Serving(home / "models"), saves=saves)


def new_request(at: int, place: int = 0) -> Job:
    return replace(job(place, outcome=None), job_id=f"9{place}", submit=at)


def resident() -> int:
    """Return the bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


AT = NOW + 60 * 10_000  # after all events of a test


def answers(engine: Engine, place: int) -> tuple[Assessment, Assessment]:
    """Assess a request in brief and in full, by one assessor."""
    new = new_request(AT, place)
    with engine.open_assessor(AT) as assessor:
        return assessor.assess_all([new])[0], assessor.assess(new)


def test_an_answer_is_that_of_a_short_lived_process(store: Store, home: Path) -> None:
    promote(home, 1)
    engine = engine_of(store, home)
    engine.follow(AT)
    champions = Champions("alps", Serving(home / "models"))
    bring_up_to_date(store, "alps", champions.policy)
    once = stored_assessor(store, champions, AT)
    for place in range(12):
        new = new_request(AT, place)
        brief, whole = answers(engine, place)
        assert brief == once.assess_all([new])[0]
        other = once.assess(new)
        assert [one.job_id for one in whole.similar] == [one.job_id for one in other.similar]
        assert whole.failure is not None
        assert other.failure is not None
        assert whole.failure.probability == pytest.approx(other.failure.probability, rel=1e-9)
        assert whole.similar


def test_new_observations_are_followed(store: Store, home: Path) -> None:
    promote(home, 1)
    engine = engine_of(store, home)
    engine.follow(AT)
    before, _ = answers(engine, 1)
    write_jobs(
        store, *(job(700 + n, user="bob", name="fit_1", cpus_asked=2, outcome="failed") for n in range(10))
    )
    changes = engine.follow(AT)
    assert not changes.rebuilt
    assert len(changes.ended) == 10
    after, whole = answers(engine, 1)
    assert before.failure is not None
    assert after.failure is not None
    assert after.failure.probability > before.failure.probability
    assert {"709"} == {one.job_id for one in whole.similar if one.jobs == 10}
    fresh = engine_of(store, home)
    fresh.follow(AT)
    assert answers(fresh, 1) == (after, whole), "it answers like an engine that starts now"


def test_a_promoted_model_is_taken_up_and_a_bad_one_refused(store: Store, home: Path) -> None:
    promote(home, 1)
    engine = engine_of(store, home)
    engine.follow(AT)
    assert answers(engine, 1)[0].route.version == 1
    promote(home, 2)
    engine.follow(AT)
    assert answers(engine, 1)[0].route.version == 2
    promote(home, 3)
    served = Serving(home / "models").served_model(ModelName("alps", "submit", "generic"))
    assert served
    (Serving(home / "models").copy_of(served.id) / "model.json").write_text("{}")
    engine.follow(AT)
    assert answers(engine, 1)[0].route.version == 2


def test_eight_threads_get_the_answers_of_one(store: Store, home: Path) -> None:
    """While jobs end and models are promoted, each answer is one that a single thread gets at some step."""
    steps, places = 6, (1, 2, 3)
    promote(home, 1)
    engine = engine_of(store, home)
    engine.follow(AT)
    expected: dict[int, list[tuple[Assessment, Assessment]]] = {place: [] for place in places}
    got: dict[int, list[tuple[Assessment, Assessment]]] = {place: [] for place in places}
    stop = threading.Event()

    def ask(number: int) -> int:
        place, asks = places[number % len(places)], 0
        while not stop.is_set() or not asks:
            got[place].append(answers(engine, place))
            asks += 1
        return asks

    with ThreadPoolExecutor(THREADS) as pool:
        threads = [pool.submit(ask, number) for number in range(THREADS)]
        try:
            for step in range(steps):
                for place in places:
                    expected[place].append(answers(engine, place))
                write_jobs(
                    store,
                    *(job(1000 + 10 * step + n, user=USERS[n % 4], outcome="failed") for n in range(6)),
                )
                promote(home, 2 + step)
                engine.follow(AT)
        finally:
            for place in places:
                expected[place].append(answers(engine, place))
            stop.set()
        asks = sum(thread.result() for thread in threads)
    assert asks >= THREADS
    for place in places:
        assert len({answer[0].failure.probability for answer in expected[place] if answer[0].failure}) > 1
        assert all(answer in expected[place] for answer in got[place]), "no answer mixes two states"


def test_nothing_leaks_over_many_requests(store: Store, home: Path) -> None:
    promote(home, 1)
    engine = engine_of(store, home)
    engine.follow(AT)

    def ask(count: int, first: int) -> None:
        with engine.open_assessor(AT) as assessor:
            for number in range(first, first + count):
                new = replace(new_request(AT, number % 50), name=f"name {number}", user=f"user{number % 500}")
                assessor.assess_all([new])
                if number % 10 == 0:
                    assessor.assess(new)

    ask(2000, 0)
    gc.collect()
    before = resident()
    ask(10_000, 10_000)
    gc.collect()
    assert resident() - before < 24 << 20


def test_one_process_saves_and_others_follow(store: Store, home: Path) -> None:
    promote(home, 1)
    saver, follower = engine_of(store, home, saves=True), engine_of(store, home)
    saver.follow(AT)
    follower.follow(AT)
    write_jobs(store, *(job(700 + n, outcome="failed") for n in range(5)))
    assert len(follower.follow(AT).ended) == 5
    assert len(saver.follow(AT).ended) == 5
    assert answers(saver, 2) == answers(follower, 2)
    follower.saves = True  # the other process has ended: continue from what it saved
    write_jobs(store, *(job(800 + n, outcome="failed") for n in range(5)))
    assert len(follower.follow(AT).ended) == 5


def test_an_empty_store_gives_no_probability_and_a_closed_one_an_error(home: Path) -> None:
    with open_store(Config(home=home)) as empty:
        engine = Engine(empty, "alps", Serving(home / "models"))
        engine.follow(NOW)
        with engine.open_assessor(NOW) as assessor:
            assert assessor.assess_all([new_request(NOW)])[0].failure is None
        other = Engine(empty, "other", Serving(home / "models"))
    with pytest.raises(StoreError):
        other.follow(NOW)


def test_memory_is_served_while_the_store_cannot_be_read(
    store: Store, home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    promote(home, 1)
    engine = Engine(store, "alps", Serving(home / "models"), clock=lambda: clock[0])
    clock = [float(AT)]
    engine.follow_soon()
    before = answers(engine, 1)

    def broken(*_: object, **__: object) -> None:
        raise StoreError("the disk is gone")

    monkeypatch.setattr(type(store), "changes", broken)
    clock[0] += 60
    engine.follow_soon()
    assert "the disk is gone" in caplog.text
    assert answers(engine, 1) == before
    monkeypatch.undo()
    write_jobs(
        store, *(job(700 + n, user="bob", name="fit_1", cpus_asked=2, outcome="failed") for n in range(10))
    )
    engine.follow_soon()
    assert answers(engine, 1) == before, "the next try comes later"
    clock[0] += 60
    engine.follow_soon()
    assert answers(engine, 1) != before


def test_a_model_that_cannot_answer_is_refused(store: Store, home: Path) -> None:
    promote(home, 1)
    engine = engine_of(store, home)
    engine.follow(AT)
    manifest = replace(tiny_bundle(created=5), thresholds={}).save(home / "models" / "made" / "silent")
    serving = Serving(home / "models")
    (home / "models" / "made" / "silent").rename(serving.copy_of(manifest.id))
    serving.point(ModelName("alps", "submit", "generic"), 2, manifest.id)
    engine.follow(AT)
    assert answers(engine, 1)[0].route.version == 1


def test_a_first_query_about_the_past_does_not_cut_the_history(store: Store, home: Path) -> None:
    promote(home, 1)
    early = Engine(store, "alps", Serving(home / "models"), clock=lambda: AT)
    fresh = engine_of(store, home)
    early.assess_all([new_request(NOW)], at=NOW)
    fresh.follow(AT)
    early.follow(AT)
    assert answers(early, 1) == answers(fresh, 1)


def test_a_history_that_grows_while_it_is_read_is_read_as_of_one_moment(store: Store) -> None:
    """A job's request and outcome come from one read, though another thread writes meanwhile."""
    stop, number = threading.Event(), 1000

    def write() -> None:
        nonlocal number
        while not stop.is_set():
            write_jobs(store, *(job(n, outcome=outcome_of(n)) for n in range(number, number + 200)))
            number += 200

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(6):
            OnlineFeatures.from_history(store, "alps", POLICIES["wasted"])
    finally:
        stop.set()
        writer.join()
    assert number > 1000


def test_the_engine_is_not_locked_while_sbatch_is_asked(
    store: Store, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`sbatch --test-only` may take its time: meanwhile the engine follows and answers others."""
    promote(home, 1)
    workspace = Workspace(Config(home=home, cluster="alps"), long_lived=True)
    done: list[str] = []

    def others() -> None:
        engine = workspace.engine("alps")
        engine.follow()
        engine.assess_all([new_request(AT)])
        done.append("others")

    def slow(*_: object, **__: object) -> None:
        thread = threading.Thread(target=others)
        thread.start()
        thread.join(60)
        done.append("sbatch")

    monkeypatch.setattr("forewarn.assess.script.inspection.ask_sbatch", slow)
    script = tmp_path / "job.sbatch"
    script.write_text("#!/bin/sh\n#SBATCH -t 10\nhostname\n")
    with workspace:
        result = check_scripts(workspace, script, user="ann")
    assert done == ["others", "sbatch"]
    assert result.checked[0].assessment.cluster == "alps"


def test_what_the_machine_is_changes_with_the_store(store: Store, home: Path) -> None:
    """Nodes are read again when they change, and not with each update."""
    engine = engine_of(store, home)
    engine.follow(AT)
    with engine.open_assessor(AT) as assessor:
        before = assessor.machine
        assert before.partitions == ()
    engine.follow(AT + 1)
    with engine.open_assessor(AT) as assessor:
        assert assessor.machine is before
    partition = Partition(cluster="alps", name="main", time_max=7200)
    with store.writing() as writer:
        writer.observe(
            "partition",
            to_frame(
                [Observation(seen_at=AT, source="test", reconstructed=False, record=partition)], "partition"
            ),
        )
    engine.follow(AT + 2)
    with engine.open_assessor(AT) as assessor:
        assert [one.name for one in assessor.machine.partitions] == ["main"]


def test_a_model_of_another_failure_policy_changes_the_state(store: Store, home: Path) -> None:
    """What counts as failure is part of the state: it is rebuilt when the champion's policy differs."""
    promote(home, 1)
    engine = engine_of(store, home)
    engine.follow(AT)
    assert engine.policy == POLICIES["wasted"]
    bundle = tiny_bundle(created=7)
    manifest = replace(bundle, facts=replace(bundle.facts, population="papers")).save(
        home / "models" / "papers"
    )
    serving = Serving(home / "models")
    (home / "models" / "papers").rename(serving.copy_of(manifest.id))
    serving.point(ModelName("alps", "submit", "generic"), 2, manifest.id)
    assert engine.follow(AT).rebuilt
    assert engine.policy == POLICIES["papers"]
    assert answers(engine, 1)[0].route.version == 2


def test_pending_jobs_are_known_until_they_start(store: Store, home: Path) -> None:
    engine = engine_of(store, home)
    assert engine.pending == [], "nothing before the first update"
    pending = job(900, outcome=None)
    write_jobs(store, pending)
    engine.follow(AT)
    assert engine.pending == [("900", pending.submit)]
    write_jobs(store, replace(pending, start=pending.submit + 5, state="RUNNING"))
    changes = engine.follow(AT)
    assert (changes.started, engine.pending) == ([("900", pending.submit)], [])


def test_two_updates_at_once_do_the_work_once(store: Store, home: Path) -> None:
    """Each change is reported by one of the updates, however many threads ask for one."""
    promote(home, 1)
    engine = engine_of(store, home)
    engine.follow(AT)
    write_jobs(store, *(job(700 + n, outcome="failed") for n in range(5)))
    with ThreadPoolExecutor(THREADS) as pool:
        ended = [len(changes.ended) for changes in pool.map(lambda _: engine.follow(AT), range(THREADS))]
    assert sorted(ended) == [0] * (THREADS - 1) + [5]
