"""What every store keeps: the promises of `forewarn.store.base`, as tests.

A store's test class inherits `StoreContract` and says how a fresh one is opened:

    class TestEmbedded(StoreContract):
        @contextmanager
        def fresh(self, *, known_delay=0):
            with TemporaryDirectory() as home, open_embedded(Path(home), known_delay=known_delay) as store:
                yield store
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from forewarn.errors import StoreError, UsageError
from forewarn.job.columns import SCHEMAS, record_schema
from forewarn.store.base import ASSESSMENT_SCHEMA, NUMBERED_SCHEMA, ClusterFacts, Store, View, WriteCounts
from forewarn.store.filters import Between, Equal
from tests.store.samples import Row, frame, many, row, seen

FIELDS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "job_id": st.sampled_from(["7", "8", "10_1"]),
        "submit": st.sampled_from([100, 200]),
        "seen_at": st.integers(100, 400),
        "source": st.sampled_from(["live", "log"]),
        "reconstructed": st.booleans(),
        "partition": st.sampled_from([None, "a", "b"]),
        "time_limit": st.sampled_from([None, 60, 120]),
        "start": st.sampled_from([None, 150, 300]),
        "end": st.sampled_from([None, 350]),
        "outcome": st.sampled_from([None, "failed", "timeout", "completed"]),
        "cpu_time": st.sampled_from([None, 0.5, float("inf")]),
    }
)
OBSERVED = st.lists(
    FIELDS.map(lambda fields: row(**fields)),
    max_size=40,
    # One sighting of a job at a time, so that no order of writing need decide.
    unique_by=lambda r: (r["job_id"], r["submit"], r["seen_at"]),
)


def write(store: Store, *rows: Row, kind: str = "job", file: str | None = None) -> WriteCounts:
    with store.writing() as writer:
        return writer.observe(kind, frame(*rows, kind=kind), file=file)


def whole(store: Store, **asked: Any) -> pl.DataFrame:
    columns = asked.get("columns")
    kind = asked.get("kind", "job")
    schema = {**SCHEMAS[kind], "known_at": pl.Int64()}
    default = [*record_schema(kind), *(["known_at"] if kind == "job" else [])]
    empty = pl.DataFrame(schema={name: schema[name] for name in columns or default})
    return pl.concat([empty, *store.scan(**asked)])


def _assessments_at(moment: int, *, jobs: int) -> pl.DataFrame:
    rows = [
        ("c", str(n), 100, "submit", "m", moment, 0.5, 0.5, "fine", 1.0, None, f"{moment}")
        for n in range(jobs)
    ]
    return pl.DataFrame(rows, schema=dict(ASSESSMENT_SCHEMA), orient="row")


class StoreContract:
    """Inherit it, and the store is held to its contract."""

    def fresh(self, *, known_delay: int = 0) -> AbstractContextManager[Store]:
        raise NotImplementedError("say how a fresh store is opened")

    @pytest.fixture
    def store(self) -> Iterator[Store]:
        with self.fresh() as store:
            yield store

    # observations

    def test_writing_twice_changes_nothing(self, store: Store) -> None:
        jobs = many(500)
        for expected in [(500, 0), (0, 500), (0, 500)]:
            with store.writing() as writer:
                written = writer.observe("job", jobs, file="log")
            assert (written.new, written.same, written.conflicts.height) == (*expected, 0)
        assert store.count() == 500
        assert whole(store).drop("known_at").equals(jobs.select(*record_schema("job")).sort("submit"))

    def test_what_changed_since_a_revision(self, store: Store) -> None:
        write(store, *(row(str(n)) for n in range(5)))
        everything, first = store.changes(cluster="c", since=0)
        assert (everything.height, first) == (5, store.revision(cluster="c"))
        write(store, row("2"), row("3", cluster="d"))
        nothing, same = store.changes(cluster="c", since=first)
        assert (nothing.is_empty(), same) == (True, first), "known already, or another cluster's"
        for n in range(20):  # as many as it takes for what is new to be put together with what is old
            write(store, row("2", seen_at=200 + n), row(f"9{n}", submit=300))
        changed, last = store.changes(cluster="c", since=first)
        assert set(changed["job_id"]) == {"2", *(f"9{n}" for n in range(20))}
        assert changed.height == 21
        assert last == store.revision(cluster="c") > first
        assert changed.columns == ["cluster", "job_id", "submit"]

    def test_a_revision_grows_with_what_is_new_and_else_stays(self, store: Store) -> None:
        assert store.revision() == store.revision(cluster="c") == 0
        write(store, row("1"))
        first = store.revision(cluster="c")
        assert first > 0
        write(store, row("1"))
        assert store.revision(cluster="c") == first
        assert (store.revision(cluster="other"), store.revision("node", cluster="c")) == (0, 0)
        write(store, row("2"))
        assert store.revision(cluster="c") > first

    def test_half_of_a_batch_may_be_there(self, store: Store) -> None:
        with store.writing() as writer:
            writer.observe("job", many(100), file="a")
            written = writer.observe("job", many(100, first=50), file="b")
        assert (written.new, written.same) == (50, 50)
        assert store.count() == 150

    def test_a_row_repeated_in_a_batch_is_one(self, store: Store) -> None:
        for file in (None, "log"):
            written = write(store, row("1", source=str(file)), row("1", source=str(file)), file=file)
            assert (written.new, written.same) == (1, 1)

    def test_rows_of_one_file_must_not_contradict_each_other(self, store: Store) -> None:
        rows = [row(user="ann"), row("2", user="cat"), row(user="bob"), row(user="ann"), row(user=None)]
        for expected in [(2, 1), (0, 3)]:
            written = write(store, *rows, file="log")
            assert (written.new, written.same) == expected
            assert written.conflicts["line"].to_list() == [3, 5]
        assert whole(store)["user"].to_list() == ["ann", "cat"]

    @pytest.mark.parametrize("times", [1, 2])
    def test_nor_rows_of_different_batches(self, store: Store, times: int) -> None:
        """The second time the first row is there already: the file still contradicts itself."""
        for _ in range(times):
            with store.writing() as writer:
                writer.observe("job", frame(row(user="ann")), file="log")
                writer.observe("job", many(50), file="log")
                again = writer.observe(
                    "job", frame(row(user="bob"), row(user="ann"), row(user="dan")), file="log"
                )
            assert again.conflicts["line"].to_list() == [1, 3]
            assert (again.new, again.same) == (0, 1)
        assert store.observations("job", {"cluster": "c", "submit": 100, "source": "live"}).height == 1

    def test_a_job_ends_once_in_a_file(self, store: Store) -> None:
        """The `seen_at` of a final record follows its end: it does not make two ends two sightings."""
        ended: Row = {"reconstructed": True, "outcome": "failed", "source": "log"}
        first, other = (row(seen_at=end, end=end, **ended) for end in (200, 201))
        waiting = [row(seen_at=at, reconstructed=True, source="log") for at in (100, 110)]
        for expected in [(3, 1), (0, 4)]:
            written = write(store, *waiting, first, other, first, file="log")
            assert (written.new, written.same) == expected
            assert written.conflicts["line"].to_list() == [4]
        with store.writing() as writer:  # nor across batches, the first row stored long ago
            assert writer.observe("job", frame(first), file="log").same == 1
            assert writer.observe("job", frame(other), file="log").conflicts.height == 1
        assert whole(store)["end"].to_list() == [200]

    def test_a_job_ends_once_a_run_where_its_source_tells_of_every_run(self, store: Store) -> None:
        """A job that was requeued keeps its key; its last end is the job's, in whatever order they come."""
        run: Row = {"reconstructed": True, "source": "jobcomp"}
        last, first = (row(seen_at=end, end=end, outcome="failed", **run) for end in (201, 200))
        start = row(seen_at=200, start=200, **run)  # in the second in which the first run ended
        for expected in [(3, 1), (0, 4)]:
            written = write(store, last, first, start, last, file="log")
            assert (written.new, written.same, written.conflicts.height) == (*expected, 0)
        assert whole(store)["end"].to_list() == [201]
        other = row(seen_at=201, end=201, outcome="failed", partition="b", **run)
        assert write(store, last, other, file="log").conflicts["line"].to_list() == [2]

    def test_two_files_may_tell_two_ends(self, store: Store) -> None:
        ended: Row = {"reconstructed": True, "outcome": "failed", "source": "log"}
        first, other = (row(seen_at=end, end=end, **ended) for end in (200, 201))
        assert [write(store, job, file=f).new for job, f in ((other, "a"), (first, "b"))] == [1, 1]
        assert [write(store, job, file=f).same for job, f in ((other, "a"), (first, "b"))] == [1, 1]
        assert store.observations("job", {"job_id": "1"})["end"].to_list() == [200, 201]

    def test_ends_seen_live_are_sightings(self, store: Store) -> None:
        rows = [row(seen_at=end, end=end, outcome="failed") for end in (200, 201)]
        assert write(store, *rows, file="log").new == 2

    def test_another_file_may_and_is_current(self, store: Store) -> None:
        with store.writing() as writer:
            writer.observe("job", frame(row(user="ann")), file="a")
            written = writer.observe("job", frame(row(user="bob")), file="b")
        assert (written.new, written.conflicts.height) == (1, 0)
        assert whole(store)["user"].to_list() == ["bob"]
        # The first file again is nothing new; what the second said stays current.
        assert write(store, row(user="ann"), file="a").same == 1
        assert whole(store)["user"].to_list() == ["bob"]
        assert store.count() == 1

    def test_a_file_must_not_contradict_itself_with_rows_of_another_file(self, store: Store) -> None:
        write(store, row(user="ann"), file="a")
        write(store, row(user="bob"), file="b")
        written = write(store, row(user="ann"), row(user="bob"), file="c")
        assert (written.same, written.conflicts["line"].to_list()) == (1, [2])

    def test_sightings_may_differ(self, store: Store) -> None:
        assert write(store, row(state="PENDING"), row(state="RUNNING"), row(state="PENDING")).new == 2
        assert store.observations("job", {"job_id": "1"})["state"].to_list() == ["PENDING", "RUNNING"]
        assert whole(store)["state"].to_list() == ["RUNNING"]

    def test_no_observation_without_its_key(self, store: Store) -> None:
        with pytest.raises(UsageError, match="job without submit"):
            write(store, {**row(), "submit": None})
        with pytest.raises(UsageError, match="no such kind"), store.writing() as writer:
            writer.observe("jbo", frame(row()))

    @pytest.mark.parametrize(
        "change",
        [pl.col("user").cast(pl.Categorical), pl.lit(1).alias("shoe_size"), pl.lit(None).alias("end")],
    )
    def test_no_observation_of_another_schema(self, store: Store, change: pl.Expr) -> None:
        jobs = many(10)
        for wrong in (jobs.with_columns(change), jobs.drop("user")):
            with pytest.raises(UsageError, match=r"user|shoe_size|end"), store.writing() as writer:
                writer.observe("job", wrong)
        with store.writing() as writer:
            assert writer.observe("job", jobs.select(sorted(jobs.columns))).new == 10, "in any order"

    def test_observations_by_any_columns_in_the_order_seen(self, store: Store) -> None:
        write(store, row(seen_at=300, user="ann"), row(seen_at=200), row("12_3", submit=7, user="ann"))
        write(store, row(seen_at=250))
        assert store.observations("job", {"job_id": "1"})["seen_at"].to_list() == [200, 250, 300]
        assert store.observations("job", {"cluster": "c", "job_id": "12_3", "submit": 7}).height == 1
        assert store.observations("job", {"user": "ann"})["job_id"].to_list() == ["12_3", "1"]
        assert store.observations("job", {"job_id": "1", "submit": 7}).is_empty()
        assert store.observations("job", {"job_id": "x"}).schema == pl.Schema(SCHEMAS["job"])
        with pytest.raises(UsageError, match="has no colour"):
            store.observations("job", {"colour": "red"})

    # views

    def test_the_latest_value_of_each_field(self, store: Store) -> None:
        write(store, row(seen_at=300, state="RUNNING", start=290, partition=None))
        write(store, row(seen_at=100, state="PENDING", partition="a,b", time_limit=60))
        (job,) = whole(store).to_dicts()
        assert (job["state"], job["partition"], job["time_limit"], job["start"]) == (
            "RUNNING",
            "a,b",
            60,
            290,
        )

    def test_an_exact_outcome_stands_over_one_that_only_failed(self, store: Store) -> None:
        """Accounting has steps, which the controller has not; whoever saw the end live looked after it."""
        by_steps = row(seen_at=200, end=200, outcome="out_of_memory", source="sacct", reconstructed=True)
        live = row(seen_at=230, end=200, outcome="failed")
        others = [
            row("2", seen_at=200, outcome="timeout"),
            row("2", seen_at=230, outcome="completed"),
            row("3", seen_at=200, outcome="failed"),
        ]
        with store.writing() as writer:
            writer.observe("job", frame(live, *others))
        with store.writing() as writer:
            writer.observe("job", frame(by_steps))
        (found,) = store.scan(columns=["job_id", "outcome", "known_at"])
        assert found.rows() == [("1", "out_of_memory", 230), ("2", "completed", 200), ("3", "failed", 200)]

    def test_a_view_shows_what_had_been_seen_by_then(self, store: Store) -> None:
        write(
            store,
            row(seen_at=100, time_limit=60, partition="a"),
            row(seen_at=200, time_limit=120),
            row(seen_at=300, time_limit=240, start=250, state="RUNNING"),
            row("2", seen_at=180, time_limit=7, start=150),  # seen late: its earliest sighting stands
            row("2", seen_at=190, time_limit=8, partition="b"),
            row("3", seen_at=100, time_limit=1),  # not started: as of submit
            row("3", seen_at=101, time_limit=2),
        )
        for view, limits in {"now": [240, 8, 2], "start": [120, 7, 1], "submit": [60, 7, 1]}.items():
            found = whole(store, view=view)
            assert found["time_limit"].to_list() == limits, view
            assert found["start"].to_list() == [250, 150, None], view  # times are those of now
            assert found["state"].to_list() == ["RUNNING", None, None], view
        assert whole(store, view="start", columns=["time_limit"])["time_limit"].to_list() == [120, 7, 1]

    def test_what_was_given_at_start_is_what_was_first_seen_of_it(self, store: Store) -> None:
        write(
            store,
            row(seen_at=100, cpus_asked=4),
            row(seen_at=300, start=250, nodes="n1", cpus_given=8),  # seen after the start, true since then
            row(seen_at=400, start=250, nodes="n1", cpus_given=6),  # it gave some back
            row("2", seen_at=100, cpus_asked=4),
            row("2", seen_at=300, cpus_asked=5),
        )
        given = {"now": [6, None], "start": [8, None], "submit": [None, None]}
        for view, cpus in given.items():
            assert whole(store, view=view)["cpus_given"].to_list() == cpus, view
        assert whole(store, view="start", columns=["nodes"])["nodes"].to_list() == ["n1", None]

    def test_known_at(self) -> None:
        with self.fresh(known_delay=5) as store:
            write(
                store,
                row("1", end=200, outcome="failed", seen_at=200, reconstructed=True, source="log"),
                row("2", end=200, outcome="failed", seen_at=200, reconstructed=True, source="log"),
                row("2", end=200, outcome="failed", seen_at=260),
                row("2", end=200, outcome="failed", seen_at=230),
                row("3", seen_at=230),
                row("4", end=200, outcome="failed", seen_at=240),
                row("5", outcome="unknown", seen_at=100, reconstructed=True),
            )
            assert whole(store)["known_at"].to_list() == [205, 230, None, 240, None]
            assert whole(store, columns=["known_at"])["known_at"].to_list() == [205, 230, None, 240, None]
            early = whole(store, where=Between("known_at", most=209), columns=["job_id"])
            assert early["job_id"].to_list() == ["1"]

    @pytest.mark.slow
    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
    @given(observed=OBSERVED)
    def test_views_in_one_reading_are_those_of_a_scan_each(self, observed: list[Row]) -> None:
        columns: dict[View, list[str]] = {
            "submit": ["job_id", "partition", "time_limit", "outcome"],
            "start": ["job_id", "time_limit", "cpus_given", "nodes"],
            "now": ["known_at", "partition", "job_id", "cpus_given"],
        }
        with self.fresh(known_delay=3) as store:
            # What was given is told late and may change.
            write(store, row("9"), *(r | {"cpus_given": r["seen_at"] % 3 or None} for r in observed))
            two: dict[View, list[str]] = {"now": columns["now"], "submit": columns["submit"]}
            for views in (columns, two):
                found = list(store.scan_views(views, cluster="c", rows=2))
                for view, names in views.items():
                    each = list(store.scan(view=view, columns=names, cluster="c", rows=2))
                    assert len(each) == len(found)
                    for frames, alone in zip(found, each, strict=True):
                        assert_frame_equal(frames[view], alone)

    def test_views_in_one_reading_see_one_state_and_one_cluster(self, store: Store) -> None:
        with store.writing() as writer:
            writer.observe("job", many(1000))
            writer.observe("job", many(10, cluster="d"))
        found = store.scan_views({"submit": ["submit"], "now": ["cluster", "outcome"]}, cluster="c", rows=250)
        first = next(found)
        with store.writing() as writer:
            writer.observe("job", many(100, first=1000))
        frames = [first, *found]
        assert [frame["now"].height for frame in frames] == [250] * 4
        assert pl.concat([frame["submit"] for frame in frames])["submit"].to_list() == list(range(1000))
        assert {name for frame in frames for name in frame["now"]["cluster"]} == {"c"}
        with pytest.raises(UsageError):
            store.scan_views({"submit": ["colour"]})

    @pytest.mark.slow
    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
    @given(observed=OBSERVED, data=st.data())
    def test_no_order_of_writing_matters(self, observed: list[Row], data: st.DataObject) -> None:
        shuffled = data.draw(st.permutations(observed))
        size = data.draw(st.sampled_from([1, 3, 100]))
        with self.fresh(known_delay=3) as store:
            for _ in range(2):
                with store.writing() as writer:
                    for first in range(0, len(shuffled), size):
                        writer.observe("job", frame(*shuffled[first : first + size]))
                for view in ("now", "submit", "start"):
                    assert whole(store, view=view).to_dicts() == seen(observed, view, known_delay=3)
            keys = {(r["job_id"], r["submit"]) for r in observed}
            assert store.count() == len(keys)
            assert sum(
                store.observations("job", {"job_id": key[0], "submit": key[1]}).height for key in keys
            ) == len(observed)

    # scans

    def test_a_scan_is_in_order_whatever_came_first(self, store: Store) -> None:
        for first in (600, 0, 300):
            with store.writing() as writer:
                writer.observe("job", many(300, first=first).sample(fraction=1, shuffle=True, seed=first))
                writer.observe("job", many(300, first=first, cluster="b"))
        found = whole(store, columns=["submit", "cluster", "job_id"])
        assert found.height == 1800
        assert found.equals(found.sort("submit", "cluster", "job_id"))
        assert found["submit"].to_list() == [n // 2 for n in range(1800)]

    def test_a_scan_of_a_time_and_a_cluster(self, store: Store) -> None:
        with store.writing() as writer:
            writer.observe("job", many(100))
            writer.observe("job", many(100, cluster="d"))
        assert whole(store, cluster="d", since=10, until=20)["submit"].to_list() == list(range(10, 20))
        assert whole(store, since=98)["job_id"].to_list() == ["98", "98", "99", "99"]
        assert whole(store, until=1)["cluster"].to_list() == ["c", "d"]
        assert whole(store, cluster="e").is_empty()
        assert [store.count(cluster=c) for c in (None, "c", "d", "e")] == [200, 100, 100, 0]

    def test_a_scan_of_some_jobs(self, store: Store) -> None:
        with store.writing() as writer:
            writer.observe("job", many(100))
            writer.observe(
                "job", frame(row("5_1", 1000), row("5+1", 1001), row("wrapped", 1002), row("5", 1003))
            )
        assert whole(store, job_ids=["5", "5_1"])["submit"].to_list() == [5, 1000, 1003]
        assert whole(store, job_ids=["wrapped"])["submit"].to_list() == [1002]
        assert whole(store, job_ids=[]).is_empty()

    def test_a_scan_in_frames_of_a_size(self, store: Store) -> None:
        with store.writing() as writer:
            writer.observe("job", many(1000))
        assert [f.height for f in store.scan(rows=250)] == [250] * 4
        assert [f.height for f in store.scan()] == [1000]

    def test_columns_and_where(self, store: Store) -> None:
        with store.writing() as writer:
            writer.observe("job", many(100))
        found = whole(store, columns=["cpus_asked", "job_id"], where=Equal("outcome", "failed"))
        assert found.columns == ["cpus_asked", "job_id"]
        assert found["job_id"].to_list() == [str(n) for n in range(0, 100, 5)]
        assert whole(store).columns == [*record_schema("job"), "known_at"]
        assert whole(store, columns=["source", "seen_at"], until=1).rows() == [("log", 20)]
        for wrong in ({"columns": ["colour"]}, {"where": Equal("colour", 1)}, {"kind": "jbo"}):
            with pytest.raises(UsageError):
                store.scan(**wrong)

    def test_where_sees_the_view(self, store: Store) -> None:
        """Not the observations: a job that was pending is not found as pending."""
        write(store, row(seen_at=100, state="PENDING"), row(seen_at=200, state="RUNNING"))
        assert whole(store, where=Equal("state", "PENDING")).is_empty()

    # other kinds

    def test_nodes_and_partitions_in_their_latest_state(self, store: Store) -> None:
        seen_live = {"cluster": "c", "source": "live", "reconstructed": False}
        for kind in ("node", "partition"):
            write(store, {**seen_live, "name": "n2", "seen_at": 20, "state": "IDLE"}, kind=kind)
            write(store, {**seen_live, "name": "n1", "seen_at": 10, "state": "UP"}, kind=kind)
            write(store, {**seen_live, "name": "n2", "seen_at": 15, "state": "DOWN"}, kind=kind)
            write(store, {**seen_live, "name": "n1", "seen_at": 30, "nodes": "x"}, kind=kind)
            found = whole(store, kind=kind)
            assert found.columns == list(record_schema(kind))
            assert found.select("name", "state").rows() == [("n1", "UP"), ("n2", "IDLE")]
            assert store.count(kind) == 2
            assert store.observations(kind, {"name": "n2"})["seen_at"].to_list() == [15, 20]
            with pytest.raises(UsageError):
                store.scan(kind, view="submit")
            again = {**seen_live, "name": "n1", "seen_at": 30, "nodes": "x"}
            other = {**seen_live, "name": "n3", "seen_at": 30, "state": "IDLE"}
            assert write(store, again, other, kind=kind).new == 1, "two looks within one second"

    def test_nodes_that_were_seen_at_the_same_moment(self, store: Store) -> None:
        seen = {"cluster": "c", "source": "live", "reconstructed": False, "seen_at": 20, "state": "IDLE"}
        assert write(store, {**seen, "name": "n1"}, kind="node").new == 1
        assert write(store, {**seen, "name": "n2"}, kind="node").new == 1
        assert write(store, {**seen, "name": "n1"}, kind="node").same == 1
        assert store.count("node") == 2

    def test_usage_samples(self, store: Store) -> None:
        samples = [{**row(), "at": at, "seen_at": at, "memory": at * 2} for at in (110, 120, 110)]
        assert write(store, *samples, kind="usage").new == 2
        assert whole(store, kind="usage", since=100, until=101)["memory"].to_list() == [220, 240]
        assert store.count("usage") == 2
        assert store.count("job") == 0

    def test_a_program_run_is_one_record_of_its_start_and_its_end(self, store: Store) -> None:
        run = {
            "cluster": "c",
            "run_id": "u",
            "job_id": "7",
            "source": "xalt",
            "reconstructed": True,
            "start": 10,
        }
        begun, ended = {**run, "seen_at": 10}, {**run, "seen_at": 20, "end": 20}
        assert write(store, ended, kind="program").new == 1
        revision = store.revision("program", cluster="c")
        assert revision > 0
        assert write(store, begun, ended, kind="program").new == 1
        assert store.revision("program", cluster="c") > revision
        assert whole(store, kind="program")["end"].to_list() == [20]
        assert (store.count("program"), store.count("job")) == (1, 0)
        assert store.revision("program", cluster="d") == 0

    # small things

    def test_clusters_and_cursors(self, store: Store) -> None:
        facts = ClusterFacts("Europe/Berlin", {"cpus_asked": {"absence": "leaks"}})
        with store.writing() as writer:
            writer.describe_cluster("c", ClusterFacts())
            writer.describe_cluster("c", facts)
            writer.set_cursor("sacct", "1")
            writer.set_cursor("sacct", "2")
        assert store.clusters() == {"c": facts}
        assert (store.cursor("sacct"), store.cursor("other")) == ("2", None)

    def test_state_by_key(self, store: Store) -> None:
        big = 2**63 - 1
        with store.writing() as writer:
            writer.put_state("c", "users", [(1, b"a"), (-big - 1, b"b"), (big, b"")])
            writer.put_state("c", "users", [(1, b"A")])
            writer.put_state("d", "users", [(1, b"other")])
            writer.put_state("c", "weights", [(7, b"w")])
        assert store.get_state("c", "users", [1, 2, big]) == {1: b"A", big: b""}
        assert store.get_state("c", "users", range(10_000)) == {1: b"A"}
        assert store.get_state("c", "nothing", [1]) == {}
        assert dict(store.all_state("c", "users")) == {1: b"A", -big - 1: b"b", big: b""}
        with store.writing() as writer:
            writer.drop_state("c", "users", [1, 2])
            writer.drop_state("c", "weights")
        assert list(store.get_state("c", "users", [1, big])) == [big]
        assert list(store.all_state("c", "weights")) == []
        assert dict(store.all_state("d", "users")) == {1: b"other"}

    def test_assessments_are_kept_once(self, store: Store) -> None:
        body = '{"verdict":"fine","reasons":["ü"]}'
        assessments = pl.DataFrame(
            [
                ("c", "1", 100, "submit", "m", 100 + n, n / 10, 0.5, "fine", 2.5, "timeout", body)
                for n in range(5)
            ],
            schema=dict(ASSESSMENT_SCHEMA),
            orient="row",
        )
        with store.writing() as writer:
            assert writer.keep_assessments(assessments.head(3)) == 3
            assert writer.keep_assessments(assessments.reverse()) == 2
            surer = assessments.tail(1).with_columns(probability=pl.lit(0.9), body=pl.lit("{}"))
            assert writer.keep_assessments(surer) == 0
        assessments = pl.concat([assessments.head(-1), surer])  # the latest values
        assert_frame_equal(store.assessments(), assessments)
        assert store.assessments(since=101, until=103)["made_at"].to_list() == [101, 102]
        some = store.assessments(until=102, columns=["body", "job_id", "made_at"])
        assert some.rows() == [(body, "1", 100), (body, "1", 101)]
        with store.writing() as writer:
            assert writer.forget_assessments("c", 103) == 3
            assert writer.forget_assessments("d", 1000) == 0
        assert store.assessments()["made_at"].to_list() == [103, 104]
        assert store.assessments(cluster="d").is_empty()
        assert store.assessments(cluster="d").schema == assessments.schema

    def test_assessments_are_numbered_in_the_order_of_saving(self, store: Store) -> None:
        assert store.newest_assessment() == 0
        with store.writing() as writer:
            writer.keep_assessments(_assessments_at(200, jobs=2))
        with store.writing() as writer:
            writer.keep_assessments(_assessments_at(100, jobs=3))
        newest = store.newest_assessment()
        numbered = store.assessments_after(0, until=newest, most=10)
        assert numbered.schema == pl.Schema(NUMBERED_SCHEMA)
        numbers = numbered["number"].to_list()
        assert numbers == sorted(set(numbers))
        assert (len(numbers), numbers[-1]) == (5, newest)
        assert numbered["job_id"].to_list()[:2] == ["0", "1"]
        assert store.assessments_after(numbers[1], until=newest, most=2)["number"].to_list() == numbers[2:4]
        assert store.assessments_after(0, until=numbers[0], most=10)["number"].to_list() == numbers[:1]

        with store.writing() as writer:  # one that takes another's place is news
            assert writer.keep_assessments(_assessments_at(200, jobs=1)) == 0
        (replaced,) = store.assessments_after(newest, until=store.newest_assessment(), most=10).rows()
        assert replaced[0] > newest
        before = store.newest_assessment()
        with store.writing() as writer:  # no number is given twice
            writer.forget_assessments("c", 1000)
        assert store.newest_assessment() == before
        with store.writing() as writer:
            writer.keep_assessments(_assessments_at(300, jobs=1))
        assert store.newest_assessment() > before

    def test_assessments_of_a_job_and_those_without_a_risk(self, store: Store) -> None:
        key = {"cluster": "c", "submit": 100, "phase": "submit", "model": "none"}
        nothing = dict.fromkeys(ASSESSMENT_SCHEMA)
        rows = [
            {**nothing, **key, "job_id": job, "made_at": at} for job, at in (("2", 8), ("1", 9), ("1", 7))
        ]
        with store.writing() as writer:
            assert writer.keep_assessments(pl.DataFrame(rows, schema=dict(ASSESSMENT_SCHEMA))) == 3
        assert store.assessments(job_id="1", cluster="c")["made_at"].to_list() == [7, 9]
        assert store.assessments(job_id="1", since=8)["body"].to_list() == [None]
        keyless = pl.DataFrame([{**rows[0], "model": None}], schema=dict(ASSESSMENT_SCHEMA))
        with pytest.raises(UsageError, match="without model"), store.writing() as writer:
            writer.keep_assessments(keyless)

    # who writes

    def test_a_name_is_claimed_once(self, store: Store) -> None:
        held = store.claim("state alps/1")
        assert held is not None
        assert store.claim("state alps/1") is None
        other = store.claim("state other")
        assert other is not None
        with held, other:
            assert store.claim("state alps/1") is None
        again = store.claim("state alps/1")
        assert again is not None
        with again:
            pass

    # threads

    @pytest.mark.slow
    def test_eight_threads_read_while_one_writes(self, store: Store) -> None:
        """Each answer is one published state: a write changes all of them together."""

        def write_all(n: int) -> None:
            with store.writing() as writer:
                writer.observe("job", many(100, first=100 * n))
                writer.put_state("c", "users", [(key, b"%d" % n) for key in range(50)])
                writer.keep_assessments(_assessments_at(n, jobs=10))
                writer.set_cursor("batch", str(n + 1))

        def read() -> int:
            looks = 0
            while not done.is_set() or not looks:
                first = int(store.cursor("batch") or 0)
                submits = [at for frame in store.scan(columns=["submit"], rows=50) for at in frame["submit"]]
                assert submits == list(range(len(submits)))
                state = {*dict(store.all_state("c", "users")).values()}
                some = {*store.get_state("c", "users", range(50)).values()}
                assessments = store.assessments(columns=["made_at", "body"])
                last = int(store.cursor("batch") or 0)
                assert len(submits) % 100 == assessments.height % 10 == 0, "half a write"
                assert len(state) == len(some) == 1, "two states at once"
                states = [
                    len(submits) // 100,
                    *(int(one) + 1 for one in (*state, *some)),
                    assessments.height // 10,
                ]
                assert first <= states[0] <= states[1] <= states[2] <= states[3] <= last
                assert store.count() >= len(submits)
                looks += 1
            return looks

        done = threading.Event()
        write_all(0)
        with ThreadPoolExecutor(8) as pool:
            readers = [pool.submit(read) for _ in range(8)]
            try:
                for n in range(1, 21):
                    write_all(n)
            finally:
                done.set()
            assert all(reader.result() > 0 for reader in readers)

    def test_closing_while_others_read(self, store: Store) -> None:
        """They read to their end, or are told that it is closed."""
        with store.writing() as writer:
            writer.observe("job", many(2000))
        scans = [store.scan(rows=100) for _ in range(3)]
        heights = [next(scan).height for scan in scans]

        def read() -> int:
            looks = 0
            with suppress(StoreError):
                while True:
                    assert store.count() == 2000
                    looks += 1
            return looks

        with ThreadPoolExecutor(8) as pool:
            readers = [pool.submit(read) for _ in range(8)]
            time.sleep(0.05)
            store.close()
            for reader in readers:
                reader.result(timeout=60)
        assert [
            height + sum(f.height for f in scan) for height, scan in zip(heights, scans, strict=True)
        ] == [2000] * 3
        store.close()
        with pytest.raises(StoreError, match="closed"):
            store.count()

    # all or nothing

    def test_a_write_that_fails_leaves_nothing(self, store: Store) -> None:
        write(store, row(user="ann"))

        def half_a_write() -> None:
            with store.writing() as writer:
                writer.observe("job", many(100))
                writer.set_cursor("sacct", "1")
                writer.put_state("c", "users", [(1, b"a")])
                writer.describe_cluster("c", ClusterFacts())
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            half_a_write()
        assert (store.count(), store.cursor("sacct"), store.clusters()) == (1, None, {})
        assert store.get_state("c", "users", [1]) == {}
        assert whole(store)["user"].to_list() == ["ann"]

    def test_nothing_is_written_after_the_end(self, store: Store) -> None:
        with store.writing() as writer:
            writer.set_cursor("sacct", "1")
        with pytest.raises(StoreError, match="ended"):
            writer.set_cursor("sacct", "2")
        assert store.cursor("sacct") == "1"
        store.close()
        with pytest.raises(StoreError, match="closed"):
            store.cursor("sacct")

    def test_readers_see_what_is_acknowledged(self, store: Store) -> None:
        write(store, row("1"))
        with store.writing() as writer:
            writer.observe("job", frame(row("2")))
            writer.set_cursor("sacct", "1")
            assert (store.count(), whole(store).height, store.cursor("sacct")) == (1, 1, None)
        assert (store.count(), whole(store).height, store.cursor("sacct")) == (2, 2, "1")

    def test_a_scan_sees_one_state_to_its_end(self, store: Store) -> None:
        with store.writing() as writer:
            writer.observe("job", many(1000))
        scan = store.scan(rows=100)
        height = next(scan).height
        for n in range(20):
            with store.writing() as writer:
                writer.observe("job", many(100, first=1000 + n * 100))
        assert height + sum(f.height for f in scan) == 1000
        assert whole(store).height == 3000

    # deletion

    def test_forgotten_records_are_gone_and_the_others_stay(self, store: Store) -> None:
        with store.writing() as writer:
            writer.observe("job", many(1000))
            writer.observe("job", many(50, cluster="d"))
        keys = whole(store, columns=["cluster", "job_id", "submit"], where=Equal("user", "u3"), cluster="c")
        before = whole(store, cluster="c", where=~Equal("user", "u3"))
        with store.writing() as writer:
            unknown = pl.DataFrame({"cluster": ["c"], "job_id": ["77777"], "submit": [3]})
            assert writer.forget("job", pl.concat([keys, unknown])) == keys.height == 143
        assert whole(store, where=Equal("user", "u3"), columns=["cluster"])["cluster"].unique().to_list() == [
            "d"
        ]
        assert_frame_equal(whole(store, cluster="c"), before)
        assert (store.count(cluster="c"), store.count(cluster="d")) == (857, 50)
        assert len(whole(store, cluster="c")) == 857
        assert store.observations("job", {"user": "u3", "cluster": "c"}).is_empty()

    def test_all_observations_of_a_record_go(self, store: Store) -> None:
        for n in range(40):  # in several segments, some of them merged
            write(store, row("1", seen_at=100 + n), row("2", seen_at=100 + n, user="ann" if n else None))
        with store.writing() as writer:
            assert (
                writer.forget("job", pl.DataFrame({"cluster": ["c"], "job_id": ["2"], "submit": [100]})) == 1
            )
            assert (
                writer.forget("job", pl.DataFrame({"cluster": ["c"], "job_id": ["2"], "submit": [100]})) == 0
            )
        assert whole(store, columns=["job_id"])["job_id"].to_list() == ["1"]
        assert store.observations("job", {"job_id": "1"}).height == 40
        assert store.observations("job", {"job_id": "2"}).is_empty()

    def test_a_revision_never_falls_and_numbers_are_not_given_twice(self, store: Store) -> None:
        write(store, row("1"), row("2", submit=200))
        revision, removals = store.revision(cluster="c"), store.removals(cluster="c")
        with store.writing() as writer:
            writer.forget(
                "job", pl.DataFrame({"cluster": ["c", "c"], "job_id": ["1", "2"], "submit": [100, 200]})
            )
        assert store.revision(cluster="c") == store.revision() == revision
        assert store.removals(cluster="c") > removals == store.removals(cluster="d") == 0
        assert store.changes(cluster="c", since=revision)[0].is_empty()
        assert (store.count(), whole(store).height) == (0, 0)
        write(store, row("3"))
        changed, newest = store.changes(cluster="c", since=revision)
        assert (changed["job_id"].to_list(), newest) == (["3"], store.revision(cluster="c"))
        assert newest > revision

    def test_forgetting_is_published_with_the_write_or_not_at_all(self, store: Store) -> None:
        write(store, row("1"))
        key = pl.DataFrame({"cluster": ["c"], "job_id": ["1"], "submit": [100]})
        with suppress(ZeroDivisionError), store.writing() as writer:
            assert writer.forget("job", key) == 1
            assert store.count() == 1, "staged"
            raise ZeroDivisionError
        assert (store.count(), store.removals(cluster="c")) == (1, 0)
        with store.writing() as writer:
            writer.forget("job", key)
            writer.observe("job", frame(row("1", user="new")))
        assert whole(store, columns=["user"])["user"].to_list() == ["new"]

    def test_samples_of_a_job_are_forgotten_together(self, store: Store) -> None:
        samples = [row(n, at=at, seen_at=at, memory=5) for n in ("1", "2") for at in (110, 120)]
        write(store, *samples, kind="usage")
        with store.writing() as writer:
            assert (
                writer.forget("usage", pl.DataFrame({"cluster": ["c"], "job_id": ["1"], "submit": [100]}))
                == 2
            )
        assert (store.count("usage"), whole(store, kind="usage")["job_id"].to_list()) == (2, ["2", "2"])

    @pytest.mark.parametrize(
        ("kind", "columns"),
        [("shoe", ["cluster"]), ("job", ["job_id"]), ("job", ["cluster"]), ("job", ["cluster", "user"])],
    )
    def test_only_records_with_a_key_are_forgotten(self, store: Store, kind: str, columns: list[str]) -> None:
        with store.writing() as writer, pytest.raises(UsageError):
            writer.forget(kind, pl.DataFrame({name: ["c"] for name in columns}))

    def test_thinned_nodes_are_seen_as_before(self, store: Store) -> None:
        def node(name: str, at: int, **fields: Any) -> Row:
            return {
                "cluster": "c",
                "name": name,
                "seen_at": at,
                "source": "live",
                "reconstructed": False,
            } | fields

        observed = [
            node("n1", at, state="IDLE" if at % 20 else "DOWN", cpus=4 if at == 110 else None)
            for at in range(100, 200, 10)
        ]
        write(store, *observed, node("n2", 105, state="DOWN"), node("n3", 190, state="IDLE"), kind="node")
        now, revision = whole(store, kind="node"), store.revision("node")
        since = {
            name: store.observations("node", {"name": name}).filter(pl.col("seen_at") >= 150)
            for name in ("n1", "n2", "n3")
        }
        with store.writing() as writer:
            assert writer.thin("node", "c", 150) == 3, "of five, that with the cpus and the last stay"
        assert_frame_equal(whole(store, kind="node"), now)
        assert store.observations("node", {"name": "n1"})["seen_at"].to_list() == [
            110,
            140,
            150,
            160,
            170,
            180,
            190,
        ]
        for name, later in since.items():
            assert_frame_equal(
                store.observations("node", {"name": name}).filter(pl.col("seen_at") >= 150), later
            )
        assert (store.revision("node"), store.removals("node", cluster="c") > 0) == (revision, True)
        with store.writing() as writer:
            assert writer.thin("node", "c", 150) == 0
            with pytest.raises(UsageError, match="by their keys"):
                writer.thin("job", "c", 150)

    def test_records_of_an_erased_user_do_not_come_back(self, store: Store) -> None:
        with store.writing() as writer:
            writer.bar_user("ann", 1000)
        jobs = [
            row("1", 999, user="ann"),
            row("2", 1000, user="ann"),
            row("3", 999, user="anna"),
            row("4", 999),
        ]
        written = write(store, *jobs, file="log")
        assert (written.new, written.same, written.barred) == (3, 0, 1)
        programs = [
            row("1", run_id=str(n), user=user, seen_at=n)
            for n, user in ((5, "ann"), (5000, "ann"), (6, "bob"))
        ]
        with store.writing() as writer:
            observed = writer.observe("program", frame(*programs, kind="program").drop("line"))
            assert (observed.new, observed.barred) == (2, 1)
            writer.bar_user("ann", 500)  # the later time stays
            writer.bar_user("bob", 7)
            assert (
                writer.observe("job", frame(row("9", 600, user="ann"), row("9", 6, user="bob"))).barred == 2
            )
        assert store.barred_users() == 2
        assert whole(store, columns=["job_id"])["job_id"].sort().to_list() == ["2", "3", "4"]

    def test_running_processes_learn_of_an_erasure(self, store: Store) -> None:
        assert store.erasures() == 0
        assert not store.load_barred_users().includes("ann", 5)
        for times in (1, 2):  # at the beginning and the end of one erasure
            with store.writing() as writer:
                writer.bar_user("ann", 1000)
            assert store.erasures() == times
        barred = store.load_barred_users()
        assert [barred.includes(*of) for of in (("ann", 999), ("ann", 1000), ("anna", 5), (None, 5))] == [
            True, False, False, False,
        ]  # fmt: skip
        of_ann = _assessments_at(100, jobs=2).with_columns(
            body=pl.Series(['{"user": "ann"}', '{"user": "ben"}']), submit=pl.lit(5, pl.Int64)
        )
        with store.writing() as writer:
            assert writer.keep_assessments(of_ann) == 1, "whoever computed it had read the job before"

    def test_assessments_are_dropped_by_their_keys(self, store: Store) -> None:
        with store.writing() as writer:
            for moment in (100, 200):
                writer.keep_assessments(_assessments_at(moment, jobs=3))
        keys = store.assessments(job_id="1", columns=[*ASSESSMENT_SCHEMA])
        with store.writing() as writer:
            assert (writer.drop_assessments(keys), writer.drop_assessments(keys)) == (2, 0)
        assert sorted(store.assessments()["job_id"].to_list()) == ["0", "0", "2", "2"]

    def test_cursors_are_listed_and_dropped(self, store: Store) -> None:
        with store.writing() as writer:
            writer.set_cursor("a", "1")
            writer.set_cursor("b", "2")
            writer.drop_cursor("a")
            writer.drop_cursor("c")
        assert (store.cursors(), store.cursor("a")) == ({"b": "2"}, None)

    def test_space_is_given_back_and_nothing_else_changes(self, store: Store) -> None:
        with store.writing() as writer:
            writer.observe("job", many(60_000))
        keys = whole(store, columns=["cluster", "job_id", "submit"], until=50_000)
        with store.writing() as writer:
            writer.forget("job", keys)
        left = whole(store)
        for wipe in (False, True, False):
            freed = store.reclaim(wipe=wipe)
            assert wipe or freed >= 0
            assert_frame_equal(whole(store), left)
        assert left.height == store.count() == 10_000
