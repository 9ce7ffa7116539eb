"""Which events a reader wants, and may see."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from forewarn.operate.events.event import JOB_TYPES, Event, EventType

Sees = Callable[[str | None, str | None], bool]  # whether jobs of a user and an account are visible


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """The events that a reader gets: those that match all that is set, among those that it may see."""

    sees: Sees
    types: frozenset[EventType] = frozenset()  # empty: all
    user: str | None = None
    cluster: str | None = None
    least_hours: float | None = None  # at risk: with it, only assessments

    def matches(self, event: Event) -> bool:
        """Check whether the reader gets an event."""
        if event.type is EventType.GAP:
            # Only events of jobs are ever missing.
            return self.least_hours is None and (not self.types or not self.types.isdisjoint(_WITH_GAPS))
        if self.types and event.type not in self.types:
            return False
        if self.user is not None and event.user != self.user:
            return False
        if self.cluster is not None and event.cluster != self.cluster:
            return False
        if self.least_hours is not None and (event.hours_at_risk or -1.0) < self.least_hours:
            return False
        return self.sees(event.user, event.account)


_WITH_GAPS = JOB_TYPES | {EventType.GAP}
