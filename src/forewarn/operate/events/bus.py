"""The bus of events in the memory of a service: one side publishes, any number of readers follow.

The bus keeps the last events in a ring. A reader holds nothing but the id of the last event that it took, so
that publishing never waits for a reader, and a slow one costs no memory. A reader whose place has left the
ring, or who comes back with an id of an earlier run, gets the assessments since then from the store, in the
same order and with the same ids: none twice, none missing. Events of jobs are not kept: in their place a gap
event says that some may be missing.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from threading import Condition
from time import time
from typing import Protocol, Self

from forewarn.operate.events.event import Event, EventType, gap_event
from forewarn.operate.events.event_id import EventId

KEPT = 4096  # events in the ring
PAGE = 200  # events that a reader takes at once


class EventHistory(Protocol):
    """The assessments of the store, as events (`stored_events.py`)."""

    def newest(self) -> int:
        """Return the number of the newest assessment; 0 if there is none."""

    def read(self, after: int, until: int, most: int) -> list[Event]:
        """Return the events of assessments with after < number ≤ until, at most so many, in order."""


class EventReader(Protocol):
    """One reader's place on a bus."""

    is_closed: bool

    def poll(self, most: int = PAGE) -> list[Event]:
        """Return the next events, at once; none where there is nothing new."""

    def wait(self, seconds: float) -> bool:
        """Wait until there may be something new; return False if the time is over."""


class EventChannel(Protocol):
    """What a bus offers, in memory or over a network."""

    def publish(self, events: Iterable[Event]) -> int:
        """Publish events in this order, without waiting for a reader; return how many were new."""

    def subscribe(self, after: str | None = None) -> EventReader:
        """Return a reader of the events after the one with an id; None: of those that come from now on."""

    def close(self) -> None:
        """End all readers."""


class EventBus:
    """A bus in memory; any thread may publish and read."""

    def __init__(
        self, history: EventHistory | None = None, *, kept: int = KEPT, run: int | None = None
    ) -> None:
        self._history, self._kept = history, kept
        self._run = int(time() * 1000) if run is None else run
        self._news = Condition()
        # A slot without an event is the place of one that was erased, or refused as such.
        self._slots: list[tuple[EventId, Event | None] | None] = [None] * kept
        self._is_erased: Callable[[Event], bool] = lambda _: False
        self._next = 0  # how many events were published, and so the place of the next
        self._dropped: EventId | None = None  # the last event that is not in the ring; None before the begin
        self._last = EventId(0)  # the last event of all
        self._count = 0  # events of jobs
        self._wakers: set[Callable[[], None]] = set()
        self.is_closed = False
        # For metrics.
        self.counts: Counter[tuple[EventType, str, str]] = Counter()  # by type, phase and verdict
        self.left_out = 0  # events of jobs beyond the most of one round
        self.readers = 0
        self.replays = 0  # times that a reader had to be given events from the store

    @property
    def published(self) -> int:
        """The number of events published in this run."""
        return self._next

    @property
    def number(self) -> int:
        """The number of the newest assessment that was published."""
        self._begin()
        return self._last.number

    def publish(self, events: Iterable[Event]) -> int:
        """Publish events; assessments have their ids already, and one that was published is left out."""
        self._begin()
        with self._news:
            before = self._next
            for event in events:
                self._append(event)
            if self._next > before:
                self._wake()
            return self._next - before

    def subscribe(self, after: str | None = None) -> BusReader:
        """Return a reader; `UsageError` if the id is not one."""
        place = None if after is None else EventId.parse(after)
        self._begin()
        with self._news:
            self.readers += 1
            return BusReader(self, self._last if place is None else place)

    def erase(self, is_erased: Callable[[Event], bool]) -> None:
        """Drop the events of erased users, and refuse further ones, which a running round may still hold."""
        with self._news:
            self._is_erased = is_erased
            for slot, pair in enumerate(self._slots):
                if pair is not None and pair[1] is not None and is_erased(pair[1]):
                    self._slots[slot] = pair[0], None

    def close(self) -> None:
        """End all readers: they take nothing more."""
        with self._news:
            self.is_closed = True
            self._wake()

    def _begin(self) -> None:
        """Begin after the newest assessment of the store: those before it are history."""
        if self._dropped is not None:
            return
        number = self._history.newest() if self._history else 0
        with self._news:
            if self._dropped is None:
                self._dropped = self._last = EventId(number, self._run)

    def _append(self, event: Event) -> None:
        if event.type is EventType.ASSESSMENT:
            place = EventId.parse(event.id)
            if place.number <= self._last.number:
                return
        else:
            self._count += 1
            place = EventId(self._last.number, self._run, self._count)
            event = replace(event, id=str(place))
        is_erased = self._is_erased(event)
        if not is_erased:
            kind = event.type, str(event.data.get("phase", "")), str(event.data.get("verdict", ""))
            self.counts[kind] += 1
        slot = self._next % self._kept
        if (oldest := self._slots[slot]) is not None:
            self._dropped = oldest[0]
        self._slots[slot] = place, None if is_erased else event
        self._last, self._next = place, self._next + 1

    def _wake(self) -> None:
        self._news.notify_all()
        for wake in tuple(self._wakers):
            wake()

    # --- for readers --------------------------------------------------------------------------------

    def has_after(self, place: EventId) -> bool:
        """Check whether there is anything after a place, or nothing more will come."""
        return self.is_closed or self._last > place or self._is_foreign(place)

    def _is_foreign(self, place: EventId) -> bool:
        """Check whether a place lies after all events: of a store that was restored since, or invented."""
        return place > self._last

    def take(self, place: EventId, most: int) -> tuple[list[Event], EventId] | None:
        """Return the events in the ring after a place, and their last place; None if some have left it."""
        with self._news:
            assert self._dropped is not None
            if place < self._dropped or self._is_foreign(place):
                return None
            first = self._first_after(place)
            taken = [
                self._slots[number % self._kept] for number in range(first, min(self._next, first + most))
            ]
            pairs = [pair for pair in taken if pair is not None]
            events = [event for _, event in pairs if event is not None]
            return events, pairs[-1][0] if pairs else place

    def _first_after(self, place: EventId) -> int:
        """Find the first event after a place by bisection."""
        low, high = max(0, self._next - self._kept), self._next
        while low < high:
            middle = (low + high) // 2
            pair = self._slots[middle % self._kept]
            assert pair is not None
            low, high = (low, middle) if pair[0] > place else (middle + 1, high)
        return low

    def replay(self, place: EventId, most: int) -> tuple[list[Event], EventId]:
        """Return assessments of the store after a place that is not in the ring, and the place after them."""
        with self._news:
            assert self._dropped is not None
            until = self._last if self._is_foreign(place) else self._dropped
        if place.number >= until.number or self._history is None:
            return [], until
        events = self._history.read(place.number, until.number, most)
        return events, EventId.parse(events[-1].id) if len(events) == most else until

    def wait(self, place: EventId, seconds: float) -> bool:
        """Wait until there is something after a place."""
        with self._news:
            return self._news.wait_for(lambda: self.has_after(place), seconds)

    def add_waker(self, wake: Callable[[], None]) -> None:
        """Call a function at each publishing; it must not wait."""
        with self._news:
            self._wakers.add(wake)

    def remove_waker(self, wake: Callable[[], None]) -> None:
        """Call it no longer."""
        with self._news:
            self._wakers.discard(wake)

    def release(self) -> None:
        """Count one reader less."""
        with self._news:
            self.readers -= 1

    def count_replay(self) -> None:
        """Count a reader that was behind."""
        with self._news:
            self.replays += 1


class BusReader:
    """A reader's place on a bus in memory: for one thread, or one task, at a time."""

    def __init__(self, bus: EventBus, place: EventId) -> None:
        self._bus, self._place = bus, place
        self._is_behind = False
        self._has_ended = False

    @property
    def is_closed(self) -> bool:
        """Whether nothing more will come."""
        return self._has_ended or self._bus.is_closed

    @property
    def may_block(self) -> bool:
        """Whether the next `poll` may read the store."""
        return self._is_behind or self._bus.take(self._place, 0) is None

    def poll(self, most: int = PAGE) -> list[Event]:
        """Return the next events at once: from the ring, or from the store, after a gap event."""
        if self.is_closed:
            return []
        taken = self._bus.take(self._place, most)
        if taken is not None:
            self._is_behind = False
            events, self._place = taken
            return events
        gap: list[Event] = []
        if not self._is_behind:
            self._is_behind = True
            self._bus.count_replay()
            gap = [
                gap_event(int(time()), "events of jobs before this one may be missing; assessments are not")
            ]
        events, self._place = self._bus.replay(self._place, most)
        if not events and (taken := self._bus.take(self._place, most)) is not None:
            self._is_behind = False
            events, self._place = taken
        return gap + events

    def wait(self, seconds: float) -> bool:
        """Wait until there may be something new; return False if the time is over."""
        return self._bus.wait(self._place, seconds)

    async def wait_async(self, seconds: float) -> bool:
        """Wait in an event loop until there may be something new; return False if the time is over."""
        loop, news = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            try:
                loop.call_soon_threadsafe(news.set)
            except RuntimeError:  # the loop has ended
                self._bus.remove_waker(wake)

        self._bus.add_waker(wake)
        try:
            if not self._bus.has_after(self._place):
                await asyncio.wait_for(news.wait(), seconds)
        except TimeoutError:
            return False
        finally:
            self._bus.remove_waker(wake)
        return True

    def close(self) -> None:
        """Leave the bus."""
        if not self._has_ended:
            self._has_ended = True
            self._bus.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
