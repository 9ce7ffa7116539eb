"""Publish what a round of a collector brought: events of jobs, and assessments saved since the last one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from threading import Lock

from forewarn.operate.collector_round import JobChanges
from forewarn.operate.events.bus import EventBus
from forewarn.operate.events.event import Event, EventType, job_event
from forewarn.operate.events.stored_events import StoredEvents
from forewarn.store.base import Store

MOST_JOB_EVENTS = 2000  # of one round: ends first, then starts, then submits
PAGE = 1000  # assessments read at once


class PublishChanges:
    """A publisher of changes on a bus; one at a time, whichever thread calls."""

    def __init__(self, bus: EventBus) -> None:
        self._bus, self._lock = bus, Lock()
        self._read_to = 0  # the number up to which assessments were read

    def __call__(self, store: Store, changes: JobChanges) -> None:
        """Publish the jobs that changed in a round, then the assessments that it saved."""
        total = len(changes.ended) + len(changes.running) + len(changes.pending)
        self._bus.publish(islice(_job_events(changes), MOST_JOB_EVENTS))
        self._bus.left_out += max(0, total - MOST_JOB_EVENTS)
        self.stored(store)

    def stored(self, store: Store) -> None:
        """Publish the assessments saved since the last time, by this process or any other."""
        history = StoredEvents(lambda: store)
        with self._lock:
            after, newest = max(self._read_to, self._bus.number), history.newest()
            while after < newest:
                events = history.read(after, newest, PAGE)
                self._bus.publish(events)
                after = newest if len(events) < PAGE else self._bus.number
            self._read_to = after


def _job_events(changes: JobChanges) -> Iterator[Event]:
    for event_type, jobs in (
        (EventType.JOB_ENDED, changes.ended),
        (EventType.JOB_RUNNING, changes.running),
        (EventType.JOB_PENDING, changes.pending),
    ):
        for job in jobs:
            yield job_event(event_type, job)
