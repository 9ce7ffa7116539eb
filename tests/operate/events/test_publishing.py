"""What a round of the collector publishes, and what is read from the store after a restart."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn.config import Config
from forewarn.job.record import Job
from forewarn.learn.registry.serving import Serving
from forewarn.operate.collector import Collector
from forewarn.operate.collector_round import JobChanges
from forewarn.operate.engine import Engine
from forewarn.operate.events.bus import BusReader, EventBus
from forewarn.operate.events.event import Event, EventType
from forewarn.operate.events.publishing import MOST_JOB_EVENTS, PublishChanges
from forewarn.operate.events.stored_events import StoredEvents
from forewarn.operate.live_assessment import LiveAssessment
from forewarn.operate.predict import save_assessments
from forewarn.store.base import Store
from forewarn.store.opening import open_store
from tests.operate.events.samples import an_assessment
from tests.operate.fake_scheduler import FakeScheduler, job
from tests.operate.job_homes import write_assessments, write_jobs
from tests.sources.fake_slurmrestd import NOW, FakeTime


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(Config(home=tmp_path / "home")) as opened:
        yield opened


def new_bus(store: Store) -> EventBus:
    """Create a bus as a new process does."""
    return EventBus(StoredEvents(lambda: store))


def everything(reader: BusReader) -> list[Event]:
    found: list[Event] = []
    while events := reader.poll():
        found += events
    return found


def kinds(events: list[Event]) -> list[tuple[str, str]]:
    return [(event.type.value.removeprefix("forewarn."), event.subject) for event in events]


def test_assessments_are_published_once_whoever_saved_them(store: Store) -> None:
    save_assessments(store, [an_assessment("1")])
    bus = new_bus(store)
    publish, reader = PublishChanges(bus), bus.subscribe()
    save_assessments(store, [an_assessment("2"), an_assessment("3", made_at=100)])
    publish.stored(store)
    publish.stored(store)
    save_assessments(store, [an_assessment("4")])
    publish(store, JobChanges())
    assert kinds(everything(reader)) == [("assessment", "2"), ("assessment", "3"), ("assessment", "4")]


def test_the_account_comes_from_the_job(store: Store) -> None:
    write_jobs(store, [Job(cluster="c", job_id="7", submit=100, user="ann", account="physics")])
    bus = new_bus(store)
    reader = bus.subscribe()
    save_assessments(store, [an_assessment("7"), an_assessment("8")])
    PublishChanges(bus).stored(store)
    assert [(event.user, event.account) for event in reader.poll()] == [("ann", "physics"), ("ann", None)]


@pytest.mark.parametrize("restart", [1, 3, 5])
def test_a_reader_continues_after_a_restart(store: Store, restart: int) -> None:
    bus = new_bus(store)
    publish, reader = PublishChanges(bus), bus.subscribe()
    for number in range(6):
        save_assessments(store, [an_assessment(str(number))])
        if number < restart:
            publish(store, JobChanges(pending=[Job(cluster="c", job_id=f"j{number}", submit=1)]))
    before = everything(reader)
    assert len(before) == 2 * restart

    bus = new_bus(store)  # a new process; some assessments were saved and never published
    publish, reader = PublishChanges(bus), bus.subscribe(before[-1].id)
    save_assessments(store, [an_assessment("6")])
    publish.stored(store)
    after = everything(reader)
    assert after[0].type is EventType.GAP
    assert kinds(after[1:]) == [("assessment", str(number)) for number in range(restart, 7)]
    places = [event.id for event in [*before, *after] if event.type is EventType.ASSESSMENT]
    assert len(set(places)) == len(places) == 7


def test_assessments_of_another_schema_version_are_passed_over(store: Store) -> None:
    bus = new_bus(store)
    publish, reader = PublishChanges(bus), bus.subscribe()
    row = {"cluster": "c", "submit": 100, "made_at": 200}
    bodies = ['{"schema_version": 99}', None, "[]"]
    write_assessments(store, [{**row, "job_id": str(n), "body": body} for n, body in enumerate(bodies)])
    save_assessments(store, [an_assessment("7")])
    publish.stored(store)
    assert kinds(everything(reader)) == [("assessment", "7")]


def test_a_round_publishes_at_most_so_many_jobs_and_counts_the_rest(store: Store) -> None:
    bus = new_bus(store)
    jobs = [Job(cluster="c", job_id=str(n), submit=1) for n in range(MOST_JOB_EVENTS + 5)]
    PublishChanges(bus)(store, JobChanges(pending=jobs))
    assert (bus.published, bus.left_out) == (MOST_JOB_EVENTS, 5)


@pytest.mark.slow
def test_publishing_a_thousand_assessments_takes_a_moment(store: Store) -> None:
    bus = new_bus(store)
    publish, reader = PublishChanges(bus), bus.subscribe()
    publish.stored(store)
    save_assessments(store, [an_assessment(str(number)) for number in range(1000)])
    begin = time.process_time()
    publish.stored(store)
    assert time.process_time() - begin < 2.0
    assert len(everything(reader)) == 1000
    assert json.loads(everything(bus.subscribe("0"))[-1].text)["data"]["job_id"]


@pytest.mark.slow
def test_rounds_of_a_collector_become_events(store: Store, tmp_path: Path) -> None:
    ended = [
        job(n, NOW - 7200 + 10 * n, end=NOW - 7000 + 10 * n) | {"user": "ann", "outcome": "completed"}
        for n in range(1, 30)
    ]
    slurm = FakeScheduler(FakeTime(), ended=ended)
    bus = new_bus(store)
    reader = bus.subscribe()
    engine = Engine(store, "c", Serving(tmp_path / "models"), saves=True)
    collector = Collector(
        store,
        slurm,
        since=NOW - 86400,
        clock=slurm.time.clock,
        live_assessor=LiveAssessment(store, engine, PublishChanges(bus)),
    )

    def events() -> list[tuple[str, str]]:
        slurm.time.now += 60
        next(iter(collector.once()))
        return kinds(everything(reader))

    assert events() == []  # history is no news
    row = job("500", int(slurm.time.now), user="ann")
    slurm.live.append(row)
    assert events() == [("job.pending", "500"), ("assessment", "500")]
    assert events() == []
    row |= {"state": "RUNNING", "start": int(slurm.time.now)}
    assert events() == [("job.running", "500"), ("assessment", "500")]
    slurm.live.remove(row)
    slurm.ended.append(
        job("500", row["submit"], start=row["start"], end=int(slurm.time.now) + 30)
        | {"user": "ann", "outcome": "failed", "state": "FAILED"}
    )
    assert events() == [("job.ended", "500")]
    array = {"array_job_id": 600, "array_tasks": "0-9", "user": "ann"}
    slurm.live.append(job("600_[0-9]", int(slurm.time.now), **array))
    assert events() == [("job.pending", "600_0"), ("assessment", "600_0")]
