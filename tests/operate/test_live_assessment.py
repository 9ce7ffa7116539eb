"""Live jobs are assessed when they are first observed, and again when more is known of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forewarn.assess.champions import Champions
from forewarn.config import Config
from forewarn.features import state_store
from forewarn.features.kernel import layout as L  # noqa: N812
from forewarn.features.online import OnlineFeatures
from forewarn.features.snapshot import (
    LiveSnapshot,
    SavedSnapshot,
    bring_up_to_date,
    is_current,
    is_maintained,
)
from forewarn.features.state_store import load_recent_outcomes, read_position
from forewarn.job.outcomes import POLICIES
from forewarn.job.record import Job
from forewarn.learn.registry.serving import ModelName, Serving
from forewarn.operate import live_assessment, online_state
from forewarn.operate.collect import DeferredAssessment
from forewarn.operate.collector import ASSESSMENTS_KEPT, Collector
from forewarn.operate.collector_round import CollectorRound
from forewarn.operate.engine import Engine
from forewarn.operate.live_assessment import LiveAssessment
from forewarn.operate.observe import write_batches
from forewarn.operate.online_state import FollowedState
from forewarn.operate.predict import LiveJobSelection, assess_live
from forewarn.store.base import Store
from forewarn.store.opening import open_store
from tests.operate.fake_scheduler import FakeScheduler, Row, job
from tests.sources.fake_slurmrestd import NOW, FakeTime

pytestmark = pytest.mark.slow

POLICY = POLICIES["wasted"]


@pytest.fixture
def slurm() -> FakeScheduler:
    """A cluster that has run for a while: every other job fails, ann's."""
    ended = [
        job(n, NOW - 7200 + 10 * n, end=NOW - 7000 + 10 * n)
        | {"user": "ann" if n % 2 else "bob", "outcome": "failed" if n % 2 else "completed", "cpus_asked": 4}
        for n in range(1, 300)
    ]
    return FakeScheduler(FakeTime(), ended=ended, piece=100)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(Config(home=tmp_path / "home")) as opened:
        yield opened


@pytest.fixture
def collector(store: Store, slurm: FakeScheduler, tmp_path: Path) -> Collector:
    return new_collector(store, slurm, tmp_path)


def new_collector(store: Store, slurm: FakeScheduler, tmp_path: Path, **how: Any) -> Collector:
    """Create a collector as a new process does."""
    live_assessor = LiveAssessment(store, Engine(store, "c", Serving(tmp_path / "models"), saves=True))
    return Collector(
        store, slurm, since=NOW - 86400, clock=slurm.time.clock, live_assessor=live_assessor, **how
    )


def one_round(collector: Collector, slurm: FakeScheduler, *, seconds: int = 60) -> CollectorRound:
    slurm.time.now += seconds
    return next(iter(collector.once()))


def waits(number: int | str, slurm: FakeScheduler, user: str = "ann", **fields: Any) -> Row:
    row = job(number, int(slurm.time.now), user=user, cpus_asked=4, **fields)
    slurm.live.append(row)
    return row


def ends(row: Row, slurm: FakeScheduler, outcome: str) -> None:
    slurm.live.remove(row)
    start = row.get("start") or int(slurm.time.now) + 10
    slurm.ended.append(
        job(row["job_id"], row["submit"], start=start, end=int(slurm.time.now) + 30)
        | {"user": row["user"], "cpus_asked": 4, "outcome": outcome, "state": outcome.upper()}
    )


def assert_equals_rebuilt_state(store: Store, slurm: FakeScheduler) -> None:
    """Check that the saved state equals one built from the whole history."""
    saved, expected = OnlineFeatures.load(store, "c", POLICY), OnlineFeatures.from_history(store, "c", POLICY)
    assert saved.places.keys() == expected.places.keys()
    for user in ("ann", "bob", "cy", "dan"):
        new = Job(
            cluster="c",
            job_id=f"9{user}",
            submit=int(slurm.time.now) + 100,
            user=user,
            cpus_asked=4,
            memory_asked=1 << 30,
            memory_per="node",
            time_limit=3600,
        )
        np.testing.assert_allclose(saved.submit(new), expected.submit(new), rtol=1e-6)


def ingest_ended(store: Store, slurm: FakeScheduler, first: int, user: str = "dan", jobs: int = 5) -> None:
    """Write jobs that just ended, as another process would."""
    slurm.time.now += 1
    now = int(slurm.time.now)
    rows = [job(first + n, now, end=now) | {"user": user, "outcome": "failed"} for n in range(jobs)]
    write_batches(store, FakeScheduler(slurm.time, live=rows).live_jobs())


def never(*_: Any, **__: Any) -> None:
    raise AssertionError("rebuilt from the whole history")


def assessed_ids(store: Store) -> list[str]:
    return store.assessments(cluster="c")["job_id"].to_list()


def test_a_job_is_assessed_when_it_comes_and_when_it_starts_and_not_between(
    collector: Collector, slurm: FakeScheduler, store: Store
) -> None:
    one_round(collector, slurm)
    row = waits(500, slurm)
    came = one_round(collector, slurm)
    assert (came.assessed, came.warned, assessed_ids(store)) == (1, 1, ["500"])
    assert one_round(collector, slurm).assessed == 0
    row |= {"state": "RUNNING", "start": int(slurm.time.now)}
    assert one_round(collector, slurm).assessed == 1
    assert one_round(collector, slurm).assessed == 0


def test_it_is_assessed_again_when_one_like_it_ends(
    collector: Collector, slurm: FakeScheduler, store: Store
) -> None:
    one_round(collector, slurm)
    first, _, other = waits(500, slurm), waits(501, slurm), waits(502, slurm, user="bob")
    assert one_round(collector, slurm).assessed == 3
    ends(other, slurm, "completed")
    assert one_round(collector, slurm).assessed == 0, "nobody like it waits"
    ends(first, slurm, "completed")
    assert one_round(collector, slurm).assessed == 1
    probabilities = store.assessments(cluster="c").filter(job_id="501")["probability"]
    assert probabilities[1] < probabilities[0], "a similar job has completed"


def test_all_are_assessed_again_in_a_burst_of_failures(collector: Collector, slurm: FakeScheduler) -> None:
    one_round(collector, slurm)
    rows = [waits(600 + n, slurm, user=f"u{n}") for n in range(6)]
    waits(700, slurm, user="zoe", cpus_given=1)
    one_round(collector, slurm)
    for row in rows:
        ends(row, slurm, "failed")
    assert one_round(collector, slurm).assessed == 1, "zoe's, which is like none of them"


def test_an_array_that_waits_is_assessed_once(
    collector: Collector, slurm: FakeScheduler, store: Store
) -> None:
    one_round(collector, slurm)
    waits("800_[1-50]", slurm, array_job_id=800, array_tasks="1-50")
    assert one_round(collector, slurm).assessed == 1
    assert assessed_ids(store) == ["800_1"]


def test_the_saved_state_equals_one_built_from_the_whole_history(
    collector: Collector, slurm: FakeScheduler, store: Store
) -> None:
    random = np.random.default_rng(0)
    one_round(collector, slurm)
    number = 990  # so that some of one second are ordered otherwise as text
    for _ in range(12):
        for _ in range(int(random.integers(0, 4))):
            number += 1
            waits(number, slurm, user=str(random.choice(["ann", "bob", "cy"])))
        for row in list(slurm.live):
            dice = random.random()
            if row["state"] == "PENDING" and dice < 0.4:
                row |= {"state": "RUNNING", "start": int(slurm.time.now) + 5}
            elif dice < 0.6:
                ends(row, slurm, str(random.choice(["completed", "failed"])))
        one_round(collector, slurm)
        assert is_current(store, "c", POLICY)
    assert_equals_rebuilt_state(store, slurm)


@pytest.mark.parametrize("restarted", [False, True])
def test_what_a_job_used_is_learnt_when_accounting_has_it_after_the_end(
    collector: Collector, slurm: FakeScheduler, store: Store, tmp_path: Path, restarted: bool
) -> None:
    """The controller shows an end at once; accounting has the usage and the cause some time later."""
    one_round(collector, slurm)
    rows = [waits(500 + n, slurm, user="ann" if n % 3 else "cy") for n in range(12)]
    one_round(collector, slurm)
    now = int(slurm.time.now)
    for n, row in enumerate(rows):
        row |= {"start": now + 1, "end": now + 9 + n, "state": "FAILED", "outcome": "failed"}
    for n in (0, 3, 7, 11):  # in another order than they ended in, while others end
        one_round(new_collector(store, slurm, tmp_path) if restarted else collector, slurm)
        killed = {"state": "OUT_OF_MEMORY", "outcome": "out_of_memory"} if n == 7 else {}
        slurm.ended.append(
            {**rows[n], **killed, "max_memory": (n + 1) << 28, "seen_at": rows[n]["end"], "suspended": n}
            | {"source": "slurmdb", "reconstructed": True}
        )
        slurm.live.remove(rows[n])
        # A job submitted in the second of a round is processed before the ends of that round.
        slurm.time.now += 1
        ends(waits(600 + n, slurm), slurm, "completed")
    assert not one_round(new_collector(store, slurm, tmp_path) if restarted else collector, slurm).troubles
    measured = SavedSnapshot(store, "c", int(slurm.time.now), POLICY).features(
        [Job(cluster="c", job_id="9", submit=0, user="ann", memory_asked=1 << 30, memory_per="node")],
        "submit",
    )[0]
    assert np.isfinite(measured[[f.name for f in L.FEATURES].index("user_memory_ratio")])
    assert_equals_rebuilt_state(store, slurm)


def test_an_outcome_that_changes_afterwards_is_learnt(
    collector: Collector, slurm: FakeScheduler, store: Store
) -> None:
    one_round(collector, slurm)
    row = waits(500, slurm, user="cy")
    one_round(collector, slurm)
    now = int(slurm.time.now)
    row |= {"start": now + 1, "end": now + 9, "state": "COMPLETED", "outcome": "completed"}
    one_round(collector, slurm)
    row |= {"state": "NODE_FAIL", "outcome": "node_fail"}
    one_round(collector, slurm)
    assert_equals_rebuilt_state(store, slurm)


def test_a_new_process_goes_on_where_the_old_one_was(
    collector: Collector, slurm: FakeScheduler, store: Store, tmp_path: Path
) -> None:
    one_round(collector, slurm)
    row = waits(500, slurm)
    one_round(collector, slurm)
    again = new_collector(store, slurm, tmp_path)
    assert one_round(again, slurm).assessed == 0
    row |= {"state": "RUNNING", "start": int(slurm.time.now)}
    assert one_round(again, slurm).assessed == 1


def test_a_restart_or_a_cron_job_does_not_walk_the_whole_history(
    collector: Collector, slurm: FakeScheduler, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_round(collector, slurm)
    monkeypatch.setattr(OnlineFeatures, "from_history", never)
    for number in (500, 501, 502):
        waits(number, slurm)
        done = one_round(new_collector(store, slurm, tmp_path), slurm)
        assert (done.assessed, done.troubles) == (1, {})
    monkeypatch.undo()
    assert_equals_rebuilt_state(store, slurm)


def test_what_is_live_and_was_never_assessed_is_assessed_when_the_state_is_rebuilt(
    collector: Collector, slurm: FakeScheduler, store: Store, tmp_path: Path
) -> None:
    one_round(collector, slurm)
    waits(500, slurm)
    waits("800_[1-50]", slurm, array_job_id=800, array_tasks="1-50")
    one_round(collector, slurm)
    waits(501, slurm)
    ingest_ended(store, slurm, 900, jobs=1)
    one_round(Collector(store, slurm, clock=slurm.time.clock), slurm)  # it does not assess
    bring_up_to_date(store, "c", POLICY)
    assert one_round(new_collector(store, slurm, tmp_path), slurm).assessed == 1
    assert sorted(assessed_ids(store)) == ["500", "501", "800_1"]


def test_what_another_process_writes_during_a_round_is_learnt(
    collector: Collector, slurm: FakeScheduler, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_round(collector, slurm)
    prepare = FollowedState.prepare

    def meanwhile(*args: Any) -> Any:
        ingest_ended(store, slurm, 900)
        update = prepare(*args)
        ingest_ended(store, slurm, 950)
        return update

    monkeypatch.setattr(FollowedState, "prepare", meanwhile)
    waits(500, slurm)
    one_round(collector, slurm)
    monkeypatch.undo()
    one_round(collector, slurm)
    assert is_current(store, "c", POLICY)
    assert_equals_rebuilt_state(store, slurm)


def test_a_history_that_takes_several_rounds_is_learnt(
    slurm: FakeScheduler, store: Store, tmp_path: Path
) -> None:
    slurm.piece = 3
    collector = new_collector(store, slurm, tmp_path, most_jobs=20)
    list(collector.once())
    now = int(slurm.time.now)
    slurm.ended += [job(1000 + n, now + 60 * n, end=now + 60 * n + 30, user="dan") for n in range(300)]
    slurm.time.now += 6 * 3600
    assert sum(done.behind for done in collector.once()) > 3
    one_round(collector, slurm)
    assert is_current(store, "c", POLICY)
    assert_equals_rebuilt_state(store, slurm)


def test_a_state_built_by_another_process_is_used(
    collector: Collector, slurm: FakeScheduler, store: Store
) -> None:
    one_round(collector, slurm)
    waits(500, slurm, user="cy")
    one_round(collector, slurm)
    ingest_ended(store, slurm, 900)
    bring_up_to_date(store, "c", POLICY)
    ends(slurm.live[0], slurm, "failed")
    one_round(collector, slurm)
    assert_equals_rebuilt_state(store, slurm)


def test_a_save_does_not_overwrite_a_state_that_another_process_built_meanwhile(
    collector: Collector, slurm: FakeScheduler, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_round(collector, slurm)
    submit = OnlineFeatures.submit

    def meanwhile(*args: Any) -> Any:
        ingest_ended(store, slurm, 900)
        bring_up_to_date(store, "c", POLICY)
        return submit(*args)

    monkeypatch.setattr(OnlineFeatures, "submit", meanwhile)
    waits(500, slurm)
    assert one_round(collector, slurm).assessed == 1
    monkeypatch.undo()
    assert_equals_rebuilt_state(store, slurm)
    one_round(collector, slurm)
    assert_equals_rebuilt_state(store, slurm)


def test_readers_leave_the_state_to_a_collector_at_work(
    collector: Collector, slurm: FakeScheduler, store: Store, tmp_path: Path
) -> None:
    waits(500, slurm)
    one_round(collector, slurm)
    before = read_position(store, "c")
    waits(501, slurm)
    serving = Serving(tmp_path / "models")
    for later, same in ((30, True), (3600, False)):
        slurm.time.now += later
        (assessment,) = assess_live(
            store, slurm, serving, LiveJobSelection(job_ids=["501"]), at=int(slurm.time.now)
        )
        assert assessment.failure
        assert (read_position(store, "c") == before) == same


def test_a_position_from_the_future_does_not_count(
    collector: Collector, slurm: FakeScheduler, store: Store
) -> None:
    one_round(collector, slurm)
    ingest_ended(store, slurm, 900)
    now = int(slurm.time.now)
    assert is_maintained(store, "c", POLICY, now)
    assert is_maintained(store, "c", POLICY, now - 30), "clocks differ a little"
    assert not is_maintained(store, "c", POLICY, now - 3600), "a clock was set back"


def test_a_model_that_is_trained_later_is_noticed(
    slurm: FakeScheduler, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assessing = DeferredAssessment(store, Serving(tmp_path / "models"), "c")
    collector = Collector(store, slurm, clock=slurm.time.clock, live_assessor=assessing)
    waits(500, slurm)
    assert one_round(collector, slurm).assessed == 0
    monkeypatch.setattr(Serving, "names", lambda _: [ModelName("c", "submit", "generic")])
    assert one_round(collector, slurm).assessed == 1
    assert assessed_ids(store) == ["500"]
    assert store.claim("state c") is None, "this process saves the state"
    assessing.close()
    claim = store.claim("state c")
    assert claim is not None
    with claim:
        pass


def test_old_assessments_are_removed(collector: Collector, slurm: FakeScheduler, store: Store) -> None:
    one_round(collector, slurm)
    waits(500, slurm)
    one_round(collector, slurm)
    assert assessed_ids(store) == ["500"]
    ends(slurm.live[0], slurm, "failed")
    slurm.time.now += ASSESSMENTS_KEPT + 100
    slurm.window = 10**8
    list(collector.once())
    assert assessed_ids(store) == []


def test_a_state_that_could_not_be_saved_is_not_used(
    collector: Collector, slurm: FakeScheduler, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_round(collector, slurm)
    waits(500, slurm, user="dan")

    def full(*_: Any) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(state_store, "save_position", full)
    assert "no space" in one_round(collector, slurm).troubles["assessments"]
    monkeypatch.undo()
    waits(501, slurm, user="cy")
    assert not one_round(collector, slurm).troubles
    assert_equals_rebuilt_state(store, slurm)


def test_a_broken_model_does_not_keep_the_history_from_being_collected(
    slurm: FakeScheduler, store: Store, tmp_path: Path
) -> None:
    pointer = tmp_path / "models" / "serving" / "c.submit.generic.json"
    pointer.parent.mkdir(parents=True)
    pointer.write_text("{")
    done = one_round(new_collector(store, slurm, tmp_path), slurm)
    assert done.new_jobs == 299
    assert "assessments" in done.troubles


def test_a_review_that_fails_is_a_trouble_and_no_end(
    collector: Collector, slurm: FakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise ValueError("no such node")

    monkeypatch.setattr("forewarn.operate.collector.node_health", broken)
    rounds = collector.forever(60)
    assert next(rounds).troubles == {"review": "ValueError: no such node"}
    assert next(rounds).troubles == {}, "not each minute again"


def test_a_bad_job_does_not_silence_the_others(
    collector: Collector, slurm: FakeScheduler, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_round(collector, slurm)
    for number in (500, 501, 502):
        waits(number, slurm)
    features = LiveSnapshot.features_as_read

    def but_one(self: LiveSnapshot, asked: Sequence[Job], *args: Any) -> Any:
        if any(job.job_id == "501" for job in asked):
            raise ValueError("no such day")
        return features(self, asked, *args)

    monkeypatch.setattr(LiveSnapshot, "features_as_read", but_one)
    done = one_round(collector, slurm)
    assert sorted(assessed_ids(store)) == ["500", "502"]
    assert done.assessed == 2
    assert done.troubles == {"assessments": "job 501: ValueError: no such day"}


def test_what_starts_goes_first(
    collector: Collector, slurm: FakeScheduler, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_round(collector, slurm)
    row = waits(500, slurm)
    one_round(collector, slurm)
    row |= {"state": "RUNNING", "start": int(slurm.time.now)}
    for number in (501, 502, 503):
        waits(number, slurm, user="bob")
    monkeypatch.setattr(live_assessment, "MOST", 2)
    assert one_round(collector, slurm).assessed == 2
    assert sorted(assessed_ids(store)) == ["500", "500", "501"]


def test_a_few_pending_jobs_represent_those_with_the_same_request(
    collector: Collector, slurm: FakeScheduler, store: Store
) -> None:
    one_round(collector, slurm)
    first = waits(500, slurm)
    for number in range(501, 520):
        waits(number, slurm)
        slurm.time.now += 1
    one_round(collector, slurm)
    before = len(assessed_ids(store))
    ends(first, slurm, "completed")
    assert one_round(collector, slurm).assessed == online_state.REPRESENTATIVES
    assert len(assessed_ids(store)) == before + online_state.REPRESENTATIVES
    assert set(store.assessments(since=int(slurm.time.now))["job_id"]) == {"517", "518", "519"}


def test_few_events_of_a_large_history_are_processed_one_by_one(
    collector: Collector, slurm: FakeScheduler, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_round(collector, slurm)
    monkeypatch.setattr(online_state, "MANY", 3)
    monkeypatch.setattr(OnlineFeatures, "from_history", never)
    waits("800_[1-12]", slurm, array_job_id=800, array_tasks="1-12")
    assert one_round(collector, slurm).troubles == {}
    waits("900_[1-90]", slurm, array_job_id=900, array_tasks="1-90")
    assert "whole history" in one_round(collector, slurm).troubles["assessments"]


def test_what_ended_long_ago_is_forgotten(collector: Collector, slurm: FakeScheduler, store: Store) -> None:
    one_round(collector, slurm)
    assert len(load_recent_outcomes(store, "c")) > 200
    slurm.time.now += 86400
    waits(500, slurm)
    one_round(collector, slurm)
    assert not load_recent_outcomes(store, "c")


def test_an_outcome_counts_from_when_it_is_known(slurm: FakeScheduler, tmp_path: Path) -> None:
    with open_store(Config(home=tmp_path / "home", known_delay=600)) as store:
        collector = new_collector(store, slurm, tmp_path)
        one_round(collector, slurm)
        row = waits(500, slurm, user="cy")
        one_round(collector, slurm)
        ends(row, slurm, "failed")
        for restarted in (False, True):
            one_round(new_collector(store, slurm, tmp_path) if restarted else collector, slurm)
            online = OnlineFeatures.load(store, "c", POLICY)
            assert len(online.places) == 1, "nobody knows yet"
            assert online.at <= slurm.time.now
        one_round(collector, slurm, seconds=600)
        assert not OnlineFeatures.load(store, "c", POLICY).places
        assert_equals_rebuilt_state(store, slurm)


def test_an_assessment_is_of_the_clocks_moment(
    collector: Collector, slurm: FakeScheduler, store: Store
) -> None:
    one_round(collector, slurm)
    row = waits(500, slurm)
    row |= {"state": "RUNNING", "start": int(slurm.time.now) + 1000}  # another machine's clock
    one_round(collector, slurm)
    assert store.assessments()["made_at"].to_list() == [int(slurm.time.now)]


def test_another_model_may_count_failures_otherwise(
    collector: Collector, slurm: FakeScheduler, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_round(collector, slurm)
    monkeypatch.setattr(Champions, "policy", POLICIES["papers"])
    assert not one_round(collector, slurm).troubles
    assert is_current(store, "c", POLICIES["papers"])
