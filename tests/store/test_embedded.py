"""The embedded store under the contract of all stores, and how it keeps its segments."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pytest

from forewarn.store import compaction as tidy
from forewarn.store.base import Store
from forewarn.store.embedded import EmbeddedStore, open_embedded
from forewarn.store.segments import Segment
from forewarn.store.sqlite_segments import SqliteSegments
from tests.store.contract import StoreContract, whole
from tests.store.samples import frame, many, row


class TestEmbedded(StoreContract):
    @contextmanager
    def fresh(self, *, known_delay: int = 0) -> Iterator[Store]:
        with TemporaryDirectory() as home, open_embedded(Path(home), known_delay=known_delay) as store:
            yield store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EmbeddedStore]:
    with open_embedded(tmp_path) as store:
        yield store


def listed(store: EmbeddedStore) -> list[Segment]:
    with closing(sqlite3.connect(store.path)) as connection:
        return SqliteSegments(connection).listed("job")


@pytest.mark.slow
def test_small_writes_do_not_make_many_segments(store: EmbeddedStore) -> None:
    for n in range(100):
        with store.writing() as writer:
            writer.observe("job", frame(row(str(n), n, 400), row(str(n - 1), n - 1, 401, state="RUNNING")))
    found = listed(store)
    assert sum(s.rows for s in found) == 200
    assert len(found) < 3 * tidy.STEP
    assert store.count() == 101
    assert whole(store, columns=["submit"])["submit"].to_list() == list(range(-1, 100))
    assert store.observations("job", {"job_id": "7"})["state"].to_list() == [None, "RUNNING"]


@pytest.mark.slow
def test_order_of_writing_outlives_a_merge(store: EmbeddedStore) -> None:
    """Sightings of one moment that differ: the later written is current, also when all are one segment."""
    for n in range(tidy.STEP):
        with store.writing() as writer:
            writer.observe("job", frame(row(user=f"u{(n * 7) % 16}")))
    assert len(listed(store)) == 1
    assert whole(store)["user"].to_list() == ["u9"]
    assert store.observations("job", {"job_id": "1"})["user"].to_list() == [
        f"u{(n * 7) % 16}" for n in range(16)
    ]


def test_a_log_out_of_order_is_sorted_into_segments_apart(store: EmbeddedStore) -> None:
    jobs = many(40_000).sample(fraction=1, shuffle=True, seed=1)
    with store.writing() as writer:
        for part in jobs.iter_slices(4000):
            writer.observe("job", part, file="log")
    before = whole(store)
    overlapping = listed(store)
    assert tidy.crowded_ones(overlapping, limit=100_000) == []
    assert tidy.crowded_ones(overlapping, limit=30_000) == overlapping
    with closing(sqlite3.connect(store.path)) as connection, connection:
        segments = tidy.rewrite(SqliteSegments(connection), overlapping, rows=10_000)
    assert [(s.rows, s.first_time, s.last_time) for s in segments] == [
        (10_000, first, first + 9_999) for first in range(0, 40_000, 10_000)
    ]
    assert tidy.crowded_ones(segments, limit=10_000) == []
    assert whole(store).equals(before)
    assert [f.height for f in store.scan(rows=10_000)] == [10_000] * 4


def test_only_the_crowded_are_rewritten() -> None:
    def segment(number: int, first: int, last: int) -> Segment:
        return Segment(number, "job", "c", 10, first, last, None, None, 0)

    chain = [segment(n, n * 10, n * 10 + 12) for n in range(5)]
    crowd = [segment(n, 21, 29) for n in range(5, 8)]
    assert {s.id for s in tidy.crowded_ones([*chain, *crowd], limit=35)} == {1, 2, 5, 6, 7}
    # One submit time, as of a large array, cannot be cut apart: that is no crowd.
    assert tidy.crowded_ones([segment(n, 7, 7) for n in range(9)], limit=35) == []


def test_one_job_is_found_without_opening_the_others(store: EmbeddedStore) -> None:
    with store.writing() as writer:
        for first in range(0, 10_000, 1000):
            writer.observe("job", many(1000, first=first))
    with (
        closing(sqlite3.connect(store.path)) as connection,
        connection,
    ):  # whoever opens another segment is stopped
        connection.execute("UPDATE segment SET checksum = 0 WHERE first_number <> 5000")
    assert whole(store, job_ids=["5123"])["submit"].to_list() == [5123]
    assert whole(store, since=5000, until=6000).height == 1000
    assert store.observations("job", {"job_id": "5123"}).height == 1
    assert store.observations("job", {"submit": 5123}).height == 1
    assert store.count() == 10_000


def test_a_scan_reads_about_what_it_gives(store: EmbeddedStore) -> None:
    """In order and in bounded frames, though segments overlap at their ends."""
    with store.writing() as writer:
        for first in range(0, 50_000, 5000):
            writer.observe("job", many(5500, first=first))
    frames = list(store.scan(rows=10_000, columns=["submit"]))
    assert pl.concat(frames)["submit"].to_list() == list(range(50_500))
    assert max(f.height for f in frames) < 16_000


def test_threads_share_a_store(store: EmbeddedStore) -> None:
    with store.writing() as writer:
        writer.observe("job", many(1000))
        writer.put_state("c", "users", [(n, b"%d" % n) for n in range(100)])
    wrong: list[object] = []

    def read() -> None:
        for n in range(50):
            if store.get_state("c", "users", [n]) != {n: b"%d" % n} or store.count() % 1000:
                wrong.append(n)
            if sum(f.height for f in store.scan(columns=["submit"])) % 1000:
                wrong.append("scan")

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for first in range(1000, 4000, 1000):
        with store.writing() as writer:
            writer.observe("job", many(1000, first=first))
    for thread in threads:
        thread.join()
    assert wrong == []
