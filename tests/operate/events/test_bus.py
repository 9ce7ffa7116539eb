"""The bus: order, readers of any speed, and places that outlive a restart."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from forewarn.errors import UsageError
from forewarn.operate.events.bus import BusReader, EventBus
from forewarn.operate.events.event import Event, EventType
from forewarn.operate.events.event_id import EventId
from tests.operate.events.samples import ListedHistory, a_job_event, an_assessment_event


def numbered(first: int, last: int) -> list[Event]:
    return [an_assessment_event(number) for number in range(first, last + 1)]


def everything(reader: BusReader, most: int = 3) -> list[Event]:
    found: list[Event] = []
    while events := reader.poll(most):
        found += events
    return found


def ids(events: list[Event]) -> list[str]:
    return [event.id for event in events if event.type is EventType.ASSESSMENT]


def test_readers_get_all_events_in_order_with_increasing_ids() -> None:
    bus = EventBus()
    readers = [bus.subscribe(), bus.subscribe()]
    bus.publish([a_job_event("1"), *numbered(1, 2), a_job_event("2")])
    bus.publish([a_job_event("3"), *numbered(3, 3)])
    for reader in readers:
        events = everything(reader)
        assert [event.subject for event in events] == ["1", "1", "2", "2", "3", "3"]
        places = [EventId.parse(event.id) for event in events]
        assert places == sorted(set(places))
        assert reader.poll() == []


def test_a_reader_without_a_place_begins_now() -> None:
    bus = EventBus(ListedHistory(range(1, 6)))
    bus.publish(numbered(6, 7))
    reader = bus.subscribe()
    assert reader.poll() == []
    bus.publish(numbered(8, 8))
    assert ids(everything(reader)) == ["8"]


def test_an_assessment_is_published_once() -> None:
    bus = EventBus(ListedHistory([1, 2]))
    reader = bus.subscribe()
    assert bus.publish(numbered(1, 4)) == 2
    assert bus.publish(numbered(2, 4)) == 0
    assert ids(everything(reader)) == ["3", "4"]


@pytest.mark.parametrize("taken", range(1, 9))
def test_a_reader_continues_after_any_event(taken: int) -> None:
    bus = EventBus()
    first = bus.subscribe()
    bus.publish([a_job_event("a"), *numbered(1, 3), a_job_event("b"), a_job_event("c"), *numbered(4, 6)])
    events = everything(first)
    again = everything(bus.subscribe(events[taken - 1].id))
    assert again == events[taken:]


def test_a_slow_reader_gets_a_gap_then_every_assessment_once() -> None:
    history = ListedHistory()
    bus = EventBus(history, kept=10)
    reader = bus.subscribe()
    for number in range(1, 101):
        history.numbers.append(number)
        bus.publish([a_job_event(str(number)), an_assessment_event(number)])
    events = everything(reader)
    assert events[0].type is EventType.GAP
    assert [event.type for event in events].count(EventType.GAP) == 1
    assert ids(events) == [str(number) for number in range(1, 101)]
    assert (bus.replays, bus.published) == (1, 200)
    bus.publish([a_job_event("new")])
    assert [event.subject for event in everything(reader)] == ["new"]


@pytest.mark.parametrize("stop", [1, 40, 95, 100])
def test_a_reader_that_leaves_while_behind_continues_where_it_was(stop: int) -> None:
    history = ListedHistory(range(1, 101))
    bus = EventBus(ListedHistory(), kept=10)
    bus._history = history
    bus.publish(numbered(1, 100))
    first: list[Event] = []
    reader = bus.subscribe("0")
    while len(ids(first)) < stop:
        first += reader.poll(7)
    rest = everything(bus.subscribe(ids(first)[-1]))
    assert ids(first) + ids(rest) == [str(number) for number in range(1, 101)]


@pytest.mark.parametrize("place", ["3", "3.1000.1", "5.1000.7", "5"])
def test_a_place_of_an_earlier_run_is_found_in_the_store(place: str) -> None:
    history = ListedHistory([1, 2, 3, 4, 5, 7, 8])  # 6 was deleted
    bus = EventBus(history, run=2000)
    reader = bus.subscribe(place)
    bus.publish([a_job_event("a"), *numbered(9, 9)])
    events = everything(reader)
    after = int(place.partition(".")[0])
    assert events[0].type is EventType.GAP
    assert ids(events) == [str(number) for number in (4, 5, 7, 8, 9) if number > after]
    assert [event.subject for event in events[-2:]] == ["a", "9"]


def test_a_place_after_all_events_gets_what_comes() -> None:
    """A store restored from a backup has fewer assessments than a reader has had."""
    bus = EventBus(ListedHistory([1, 2]))
    reader = bus.subscribe("500")
    assert [event.type for event in reader.poll()] == [EventType.GAP]
    bus.publish(numbered(3, 3))
    assert ids(everything(reader)) == ["3"]


def test_a_wrong_place_is_refused() -> None:
    with pytest.raises(UsageError, match="not the id of an event"):
        EventBus().subscribe("yesterday")


def test_waiting_ends_with_an_event_and_with_the_bus() -> None:
    bus = EventBus()
    reader = bus.subscribe()
    assert not reader.wait(0.01)
    threading.Timer(0.05, lambda: bus.publish([a_job_event()])).start()
    assert reader.wait(5)
    assert len(reader.poll()) == 1
    threading.Timer(0.05, bus.close).start()
    assert reader.wait(5)
    assert reader.is_closed
    assert reader.poll() == []


def test_a_task_waits_without_blocking_its_loop() -> None:
    bus = EventBus()

    async def read() -> list[Event]:
        reader = bus.subscribe()
        assert not await reader.wait_async(0.01)
        threading.Timer(0.05, lambda: bus.publish([a_job_event()])).start()
        assert await reader.wait_async(5)
        events = reader.poll()
        assert not await reader.wait_async(0.01)
        threading.Timer(0.05, bus.close).start()
        assert await reader.wait_async(5)
        assert reader.is_closed
        return events

    assert len(asyncio.run(read())) == 1
    assert not bus._wakers


def test_readers_are_counted_until_they_leave() -> None:
    bus = EventBus()
    with bus.subscribe() as reader, bus.subscribe():
        assert bus.readers == 2
        reader.close()
        reader.close()
        assert bus.readers == 1
    assert bus.readers == 0


@pytest.mark.slow
def test_many_threads_read_while_two_publish() -> None:
    """Small ring, slow and fast readers, reconnects: every assessment comes once and in order."""
    history, last = ListedHistory(), 3000
    bus = EventBus(history, kept=64)
    bus.subscribe().close()
    found: list[list[Event]] = [[] for _ in range(6)]

    def read(number: int) -> None:
        reader, mine = bus.subscribe("0"), found[number]
        while not mine or EventId.parse(mine[-1].id).number < last:
            if number == 0:
                time.sleep(0.002)
            mine += [event for event in reader.poll(17) if event.type is not EventType.GAP]
            if number == 1 and mine:
                reader = bus.subscribe(mine[-1].id)
            reader.wait(0.05)

    threads = [threading.Thread(target=read, args=(number,)) for number in range(len(found))]
    noise = threading.Thread(target=lambda: [bus.publish([a_job_event(str(n))]) for n in range(1000)])
    for thread in (*threads, noise):
        thread.start()
    begin = time.monotonic()
    for number in range(1, last + 1):
        history.numbers.append(number)
        bus.publish([an_assessment_event(number)])
    seconds = time.monotonic() - begin
    for thread in (*threads, noise):
        thread.join(30)
        assert not thread.is_alive()
    for mine in found:
        assert ids(mine) == [str(number) for number in range(1, last + 1)]
    assert seconds < 20
