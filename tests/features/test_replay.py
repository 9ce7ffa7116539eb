"""Design rule 2: the batch table and the same log one event at a time are the same numbers."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from forewarn.config import Config
from forewarn.errors import StoreError
from forewarn.features.batch import (
    ORDER,
    draw_looks_while_waiting,
    events_of,
    inputs_of,
    read_inputs,
    walk,
)
from forewarn.features.kernel import layout as L  # noqa: N812
from forewarn.features.kernel.state import START, SUBMIT, WAITING, new_state
from forewarn.features.online import OnlineFeatures
from forewarn.features.snapshot import LiveSnapshot, SavedSnapshot, bring_up_to_date, is_current
from forewarn.features.state_store import job_key
from forewarn.job.columns import SCHEMAS, complete, to_records
from forewarn.job.outcomes import POLICIES, FailurePolicy
from forewarn.job.record import Job
from forewarn.operate.ingest_file import ingest
from forewarn.sources.base import open_source
from forewarn.store.base import ClusterFacts, Store
from forewarn.store.opening import open_store
from tests.features.histories import history

pytestmark = pytest.mark.slow


def batch(store: Store, cluster: str, policy: FailurePolicy, phase: str) -> np.ndarray:
    inputs = read_inputs(store, cluster, policy, phase=phase)
    kind = SUBMIT if phase == "submit" else START
    return np.concatenate([v for _, _, v in walk(new_state(), inputs, events_of(inputs), emitted=kind)])


def replay(
    store: Store, cluster: str, policy: FailurePolicy, restarts: int
) -> tuple[np.ndarray, np.ndarray, OnlineFeatures]:
    """The log through the online path, saved to the store and loaded anew now and then."""
    views = {
        view: list(to_records(pl.concat(store.scan(view=view, cluster=cluster)).sort(*ORDER), Job))
        for view in ("submit", "start", "now")
    }
    events = events_of(read_inputs(store, cluster, policy, phase="submit"))
    rows: dict[int, list[np.ndarray]] = {SUBMIT: [], START: []}
    online = OnlineFeatures(cluster, policy, store.clusters()[cluster])
    stops = set(np.linspace(0, len(events.times), restarts + 2, dtype=int)[1:-1].tolist())
    for i, (t, kind, j) in enumerate(zip(events.times, events.kinds, events.jobs, strict=True)):
        if i in stops:
            with store.writing() as writer:
                online.save(writer)
            online = OnlineFeatures.load(store, cluster, policy)
        if kind == SUBMIT:
            rows[SUBMIT].append(online.submit(views["submit"][j]))
        elif kind == START:
            rows[START].append(online.start(views["start"][j]))
        else:
            online.ended(views["now"][j], int(t))
    return np.array(rows[SUBMIT]), np.array(rows[START]), online


def assert_same(one: np.ndarray, other: np.ndarray) -> None:
    """Integers equal, floats to 1e-9 (in fact to the last bit), missing where missing."""
    assert one.shape == other.shape
    for place, feature in enumerate(L.FEATURES):
        tolerance = 0.0 if feature.integer else 1e-9
        np.testing.assert_allclose(
            other[:, place], one[:, place], rtol=tolerance, atol=tolerance, err_msg=feature.name
        )


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store with a synthetic history in which requests change while pending."""
    store = open_store(Config(home=tmp_path / "home", known_delay=60))
    frame = history(1500).drop("known_at")
    final = frame.with_columns(
        partition=pl.when(pl.int_range(pl.len()) % 4 == 0).then(pl.lit("long")).otherwise("partition"),
        time_limit=pl.when(pl.int_range(pl.len()) % 5 == 0).then(7200).otherwise("time_limit"),
    )
    final = final.filter(pl.col("seen_at") > pl.col("submit"))
    asked = frame.with_columns(
        seen_at=pl.col("submit"), reconstructed=pl.lit(False), outcome=None, start=None, end=None
    )
    asked = asked.cast({c: SCHEMAS["job"][c] for c in ("outcome", "start", "end")})
    with store.writing() as writer:
        writer.observe("job", asked)
        writer.observe("job", final)
        writer.describe_cluster("c", ClusterFacts("Europe/Berlin", {"group": {"fill": "g0"}}))
    return store


@pytest.mark.parametrize("policy", ["papers", "wasted"])
def test_a_synthetic_history_replays_to_the_same_table(store: Store, policy: str) -> None:
    submit, start, _ = replay(store, "c", POLICIES[policy], restarts=3)
    assert_same(batch(store, "c", POLICIES[policy], "submit"), submit)
    assert_same(batch(store, "c", POLICIES[policy], "start"), start)
    assert np.isfinite(submit[:, [f.name for f in L.FEATURES].index("similar_rate")]).any()
    assert np.isfinite(start[:, [f.name for f in L.FEATURES].index("node_rate_max")]).any()


def test_what_changed_while_pending_is_seen_at_start_only(store: Store) -> None:
    name = [f.name for f in L.FEATURES].index("time_limit")
    submit = batch(store, "c", POLICIES["papers"], "submit")[:, name]
    start = batch(store, "c", POLICIES["papers"], "start")[:, name]
    # The change was seen with the end, which is after the submit: the submit may not know it.
    assert not (submit == 7200).any()
    instant = (start == 7200).sum()  # started when they were last seen: ended at once, or still running
    assert instant < 30
    changed = store.observations("job", {"cluster": "c"}).with_columns(time_limit=pl.lit(9000, pl.Int64))
    with store.writing() as writer:
        writer.observe("job", changed.filter("reconstructed").with_columns(seen_at=pl.col("submit") + 1))
    assert not (batch(store, "c", POLICIES["papers"], "submit")[:, name] == 9000).any()
    assert (batch(store, "c", POLICIES["papers"], "start")[:, name] == 9000).sum() > 1000


def test_state_built_from_history_continues_like_the_replay(store: Store) -> None:
    policy = POLICIES["wasted"]
    _, _, online = replay(store, "c", policy, restarts=0)
    other = OnlineFeatures.from_history(store, "c", policy)
    with store.writing() as writer:
        other.save(writer)
    saved = OnlineFeatures.load(store, "c", policy)
    (last,) = store.scan(cluster="c")
    job = next(to_records(last.tail(1), Job))
    now = job.submit + 10**6
    new = {"job_id": "999999", "submit": now}
    later = Job(**{f: getattr(job, f) for f in job.__slots__} | new)
    one = online.submit(later)
    np.testing.assert_array_equal(other.submit(later), one)
    np.testing.assert_array_equal(saved.submit(later), one)


def test_a_reader_fetches_only_its_own_rows_and_gets_the_writers_features(store: Store) -> None:
    policy = POLICIES["wasted"]
    online = OnlineFeatures.from_history(store, "c", policy)
    with store.writing() as writer:
        online.save(writer)
    jobs = list(to_records(pl.concat(store.scan(cluster="c")).tail(20), Job))
    moment = max(j.submit for j in jobs) + 10**5
    # one for all: no job may see what another one needed
    present = SavedSnapshot(store, "c", moment, policy)
    for job in jobs:
        asked = Job(
            **{f: getattr(job, f) for f in job.__slots__} | {"submit": moment, "job_id": job.job_id + "9"}
        )
        seen = present.features([asked], "submit")[0]
        whole = OnlineFeatures.load(store, "c", policy)
        live = LiveSnapshot(whole, moment).features([asked], "submit")[0]
        np.testing.assert_array_equal(whole.submit(asked), live)
        np.testing.assert_allclose(seen, live, rtol=1e-12)  # by plain Python


def test_a_reader_asks_about_a_job_in_flight_as_if_it_started_now(store: Store) -> None:
    policy = POLICIES["wasted"]
    jobs = list(to_records(pl.concat(store.scan(cluster="c")).tail(20), Job))
    moment = max(j.submit for j in jobs) + 10**5
    online = OnlineFeatures.from_history(store, "c", policy)
    waiting = [replace(job, submit=moment, job_id=f"{job.job_id}9", start=None, end=None) for job in jobs]
    for job in waiting:
        online.submit(job)
    with store.writing() as writer:
        online.save(writer)
    present = SavedSnapshot(store, "c", moment + 60, policy)
    assert present.in_flight([waiting[0]]) == [True]
    assert present.in_flight([jobs[0]]) == [False]
    for job in waiting:
        started = replace(job, start=moment + 60, nodes="n[1-3]")
        seen = present.features([started], "start")[0]
        whole = OnlineFeatures.load(store, "c", policy)
        live = LiveSnapshot(whole, moment + 60).features([started], "start")[0]
        np.testing.assert_array_equal(whole.start(started), live)
        np.testing.assert_allclose(seen, live, rtol=1e-12)  # by plain Python
    # Submitted this very moment, it is not among those that it competes with.
    alone = SavedSnapshot(store, "c", moment, policy).features([waiting[0]], "submit")[0]
    last = online_without(store, waiting[1:], policy).submit(waiting[0])
    differ = {L.FEATURES[n].name for n in np.flatnonzero(~np.isclose(alone, last, equal_nan=True))}
    # The jobs after it were submitted while it was in flight.
    assert all(name.endswith(("_risk", "burst_position")) for name in differ)
    newest = SavedSnapshot(store, "c", moment, policy).features([waiting[-1]], "submit")[0]
    last = online_without(store, waiting[:-1], policy).submit(waiting[-1])
    np.testing.assert_allclose(newest, last, rtol=1e-9)
    # One that ended between two looks is asked about as at its submit.
    np.testing.assert_array_equal(
        present.features([jobs[0]], "start")[0], present.features([jobs[0]], "submit")[0]
    )


def test_a_job_that_waits_is_learnt_from_as_it_is_served(store: Store) -> None:
    policy = POLICIES["wasted"]
    inputs = read_inputs(store, "c", policy, phase="start")
    looks = draw_looks_while_waiting(inputs)
    events = events_of(inputs, looks=looks)
    walked = walk(new_state(), inputs, events, emitted=WAITING)
    seen = [pair for _, jobs, out in walked for pair in zip(jobs, out, strict=True)]
    assert len(seen) == (looks >= 0).sum() > 250
    asked = list(to_records(pl.concat(store.scan(view="submit", cluster="c")).sort(*ORDER), Job))
    now = list(to_records(pl.concat(store.scan(cluster="c")).sort(*ORDER), Job))
    online, place = OnlineFeatures("c", policy, store.clusters()["c"]), 0
    for t, kind, j in zip(events.times, events.kinds, events.jobs, strict=True):
        if kind == SUBMIT:
            online.submit(asked[j])
        elif kind == START:
            online.start(asked[j])
        elif kind == WAITING:
            if place % 100 == 99:
                with store.writing() as writer:
                    online.save(writer)
                row = SavedSnapshot(store, "c", int(t), policy).features(
                    [replace(asked[j], start=None, nodes=None)], "start"
                )[0]
                assert seen[place][0] == j
                np.testing.assert_allclose(row, seen[place][1], rtol=1e-9)
            place += 1
        else:
            online.ended(now[j], int(t))
    assert place == len(seen)


def test_a_reader_asks_about_a_job_that_runs_as_it_was_at_its_start(store: Store) -> None:
    """Models learned of starts that the job itself did not count among those that run."""
    policy = POLICIES["wasted"]
    jobs = list(to_records(pl.concat(store.scan(cluster="c")).tail(20), Job))
    moment = max(j.submit for j in jobs) + 10**5
    waiting = [
        replace(job, submit=moment + n, job_id=f"{job.job_id}9", start=None, end=None, nodes="n[1-3]")
        for n, job in enumerate(jobs)
    ]
    for job in waiting:
        online = online_without(store, waiting, policy)
        started = replace(job, start=moment + 60)
        at_start = online.start(started)
        with store.writing() as writer:
            online.save(writer)
        seen = SavedSnapshot(store, "c", moment + 60, policy).features([started], "start")[0]
        np.testing.assert_allclose(seen, at_start, rtol=1e-9)
        # Asked as at its submit, it is as if it had neither started nor been submitted.
        alone = SavedSnapshot(store, "c", moment + 60, policy).features([started], "submit")[0]
        online = online_without(store, waiting, policy)
        with store.writing() as writer:
            online.save(writer)
        waits = SavedSnapshot(store, "c", moment + 60, policy).features([job], "submit")[0]
        np.testing.assert_allclose(alone, waits, rtol=1e-9)


def test_the_wait_of_a_job_does_not_grow_with_its_run(store: Store) -> None:
    policy, wait = POLICIES["wasted"], [f.name for f in L.FEATURES].index("wait")
    online = OnlineFeatures.from_history(store, "c", policy)
    job = Job(cluster="c", job_id="99999", submit=online.at + 10, start=online.at + 70, user="u1")
    online.submit(job)
    online.start(job)
    with store.writing() as writer:
        online.save(writer)
    assert SavedSnapshot(store, "c", online.at + 9000, policy).features([job], "start")[0][wait] == 60


def test_a_reader_makes_its_table_of_weights_once(store: Store) -> None:
    """It is a hundred megabytes, of which a job needs eighty rows."""
    policy = POLICIES["wasted"]
    bring_up_to_date(store, "c", policy)
    (frame,) = store.scan(cluster="c")
    job = replace(next(to_records(frame.tail(1), Job)), job_id="99999")
    present = SavedSnapshot(store, "c", job.submit + 10**5, policy)
    present.features([job], "submit")
    tracemalloc.start()
    present.features([job], "submit")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5 << 20


def correct(online: OnlineFeatures, job: Job) -> None:
    assert online.can_correct(job)
    online.correct(job)


def online_without(store: Store, jobs: list[Job], policy: FailurePolicy) -> OnlineFeatures:
    """The state of a history after which only these jobs were submitted."""
    online = OnlineFeatures.from_history(store, "c", policy)
    for job in jobs:
        online.submit(job)
    return online


def test_the_saved_state_is_brought_up_to_date_when_something_was_written(store: Store) -> None:
    policy = POLICIES["wasted"]
    assert not is_current(store, "c", policy)
    bring_up_to_date(store, "c", policy)
    assert is_current(store, "c", policy)
    before = OnlineFeatures.load(store, "c", policy)
    frame = pl.concat(store.scan(cluster="c", columns=[*SCHEMAS["job"]])).tail(1)
    new = frame.with_columns(job_id=pl.lit("77777"), submit=pl.lit(before.at + 5), start=None, end=None)
    with store.writing() as writer:
        writer.observe("job", complete(new.with_columns(outcome=None, seen_at=pl.lit(before.at + 5))))
    assert not is_current(store, "c", policy)
    bring_up_to_date(store, "c", policy)
    after = OnlineFeatures.load(store, "c", policy)
    assert is_current(store, "c", policy)
    assert after.at == before.at + 5
    assert after.places.keys() - before.places.keys() == {job_key("77777", after.at)}


def test_how_a_scan_is_cut_into_frames_does_not_matter() -> None:
    frame = history(400).with_columns(submit=pl.col("submit") // 300 * 300).sort("submit", "job_id")
    cuts = [0, 1, 2, 50, 51, 180, 399, 400]
    parts = [frame[a:b] for a, b in pairwise(cuts)]
    whole, cut = (
        inputs_of(
            [dict.fromkeys(("submit", "start", "now"), one) for one in frames],
            ClusterFacts(),
            POLICIES["papers"],
        )
        for frames in ([frame], parts)
    )
    assert whole.ids.equals(cut.ids)
    for name in (
        "start",
        "known",
        "numbers",
        "atoms",
        "results",
        "node_first",
        "node_keys",
        "atoms_at_start",
    ):
        np.testing.assert_array_equal(getattr(whole, name), getattr(cut, name), err_msg=name)


def test_state_of_another_policy_is_refused(store: Store) -> None:
    online = OnlineFeatures.from_history(store, "c", POLICIES["wasted"])
    with pytest.raises(StoreError, match="from history"):
        OnlineFeatures.load(store, "c", POLICIES["wasted"])
    with store.writing() as writer:
        online.save(writer)
    with pytest.raises(StoreError, match="papers"):
        OnlineFeatures.load(store, "c", POLICIES["papers"])


def test_state_is_of_how_the_clusters_fields_are_read(store: Store) -> None:
    """A review may find that a field gives the outcome away: what was learned of it is void."""
    policy = POLICIES["wasted"]
    for facts in (
        ClusterFacts("Europe/Berlin"),
        ClusterFacts("UTC"),
        ClusterFacts("UTC", {"qos": {"fill": "x"}}),
    ):
        with store.writing() as writer:
            writer.describe_cluster("c", facts)
        assert not is_current(store, "c", policy)
        with pytest.raises(StoreError, match="from history"):
            OnlineFeatures.load(store, "c", policy)
        bring_up_to_date(store, "c", policy)
        assert is_current(store, "c", policy)


def test_a_start_before_its_submit_is_at_its_submit(store: Store) -> None:
    """Clocks of different machines disagree; the batch walks it so."""
    job = Job(cluster="c", job_id="1", submit=100, user="u", start=90)
    online = OnlineFeatures("c", POLICIES["papers"])
    online.submit(job)
    assert online.start(job)[[f.name for f in L.FEATURES].index("wait")] == 0


def test_state_rebuilt_from_history_replaces_the_saved_state(store: Store) -> None:
    """Else weights that only the old policy had learned would be mixed into the new one's."""
    for policy in ("papers", "wasted"):
        online = OnlineFeatures.from_history(store, "c", POLICIES[policy])
        with store.writing() as writer:
            online.save(writer)
    loaded = OnlineFeatures.load(store, "c", POLICIES["wasted"])
    np.testing.assert_array_equal(loaded.state.weight, online.state.weight)


def test_an_end_without_a_submit_seen_is_learned_from(store: Store) -> None:
    online = OnlineFeatures("c", POLICIES["papers"])
    job = Job(cluster="c", job_id="1", submit=0, user="u", cpus_asked=1, start=5, end=9, outcome="failed")
    online.ended(job, 10)
    again = online.submit(Job(cluster="c", job_id="2", submit=20, user="u", cpus_asked=1))
    assert again[[f.name for f in L.FEATURES].index("user_last")] == 1
    assert len(online.places) == 1


@pytest.mark.shared_data
def test_ctc_replays_to_the_same_table(shared_data: Path, tmp_path: Path) -> None:
    store = open_store(Config(home=tmp_path / "home"))
    ingest(store, open_source(f"swf:{shared_data}/swf/CTC-SP2-1996-3.1-cln.swf.gz"))
    (cluster,) = store.clusters()
    submit, start, _ = replay(store, cluster, POLICIES["papers"], restarts=2)
    assert len(submit) == 77_222
    assert_same(batch(store, cluster, POLICIES["papers"], "submit"), submit)
    assert_same(batch(store, cluster, POLICIES["papers"], "start"), start)


@pytest.mark.parametrize("soon", [True, False])
def test_a_result_that_comes_in_two_parts_ends_in_the_same_state(store: Store, soon: bool) -> None:
    """The end first, then what was used and what killed the job: at once or some events later."""
    policy, draw = POLICIES["wasted"], np.random.default_rng(0)
    jobs = list(to_records(pl.concat(store.scan(cluster="c")).sort(*ORDER), Job))
    events = events_of(read_inputs(store, "c", policy, phase="submit"))
    online = OnlineFeatures("c", policy, store.clusters()["c"])
    asked = list(to_records(pl.concat(store.scan(view="submit", cluster="c")).sort(*ORDER), Job))
    open_parts: list[Job] = []
    for i, (t, kind, j) in enumerate(zip(events.times, events.kinds, events.jobs, strict=True)):
        if i % 400 == 399:
            with store.writing() as writer:
                online.save(writer)
            online = OnlineFeatures.load(store, "c", policy)
        while open_parts and (soon or draw.random() < 0.4):
            correct(online, open_parts.pop(int(draw.integers(len(open_parts)))))
        if kind == SUBMIT:
            online.submit(asked[j])
        elif kind == START:
            online.start(asked[j])
        else:
            first = {"outcome": "failed"} if jobs[j].outcome in ("out_of_memory", "timeout") else {}
            online.ended(replace(jobs[j], max_memory=None, suspended=3, **first), int(t))
            open_parts.append(jobs[j])
    for job in open_parts:
        correct(online, job)
    walked = OnlineFeatures.from_history(store, "c", policy)
    # What the regression learnt of jobs that were submitted between the two parts is what was known then.
    learnt = ("online", "context_", "flight_risk")
    compared = [n for n, f in enumerate(L.FEATURES) if soon or not any(word in f.name for word in learnt)]
    for job in jobs[-60:]:
        new = replace(job, job_id=f"{job.job_id}9", submit=online.at + 10, start=None, end=None)
        np.testing.assert_allclose(
            online.submit(new)[compared], walked.submit(new)[compared], rtol=1e-9, atol=1e-9
        )
    # That it failed is learnt from in ways that cannot be taken back.
    last = next(job for job in reversed(jobs) if job_key(job.job_id, job.submit) in online.recent_outcomes)
    other = "failed" if last.outcome == "completed" else "completed"
    assert not online.can_correct(replace(last, outcome=other))


def test_one_persons_jobs_tell_nothing_of_the_cluster(store: Store) -> None:
    policy = POLICIES["wasted"]
    bring_up_to_date(store, "c", policy)
    (frame,) = store.scan(cluster="c")
    job = replace(next(to_records(frame.tail(1), Job)), job_id="99999")
    site, own = (SavedSnapshot(store, "c", job.submit + 10**5, policy, own=own) for own in (False, True))
    there, here = site.features([job], "submit")[0], own.features([job], "submit")[0]
    names = {feature.name for place, feature in enumerate(L.FEATURES) if np.isnan(here[place])}
    assert {"queue_running", "fail_rate_1d", "partition_rate15", "group_last", "name_last"} <= names
    known = np.isfinite(here)
    assert known.sum() > 100
    np.testing.assert_array_equal(here[known], there[known])
    assert not {f.name for f in L.FEATURES if f.name.startswith("user_")} & {
        L.FEATURES[n].name for n in L.OF_OTHERS
    }
