"""Server-sent events, line by line; the last id is kept, to continue after it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TypedDict

from forewarn.errors import ServiceError
from forewarn.serve.client.call import ServiceCall

LONGEST = 16 << 20  # characters of one event
WAIT = 3.0  # seconds before a stream that ended is opened again
SILENCE = 60.0  # seconds without a line after which the connection is dead: the service sends one each 15
EVENTS = "/v1/events"


class EventQuery(TypedDict, total=False):
    """The filters of a stream of events."""

    type: str | Sequence[str]
    user: str
    cluster: str
    hours_at_risk: float


class EventLines:
    """Builds events from lines, and remembers the id of the last."""

    def __init__(self, last_id: str | None = None) -> None:
        self.last_id = last_id
        self._id: str | None = None
        self._data: list[str] = []
        self._length = 0

    def feed(self, line: str) -> dict[str, Any] | None:
        """Take a line; return the event that it ends, as a CloudEvents envelope.

        >>> lines = EventLines()
        >>> [lines.feed(line) for line in ("id: 7", 'data: {"type": "forewarn.gap"}', "")][-1], lines.last_id
        ({'type': 'forewarn.gap'}, '7')
        """
        if line:
            self._take(line)
            return None
        data, self._data, self._length = self._data, [], 0
        if self._id is not None:
            self.last_id, self._id = self._id, None
        if not data:
            return None
        try:
            event = json.loads("\n".join(data))
        except (ValueError, RecursionError):
            event = None
        if not isinstance(event, dict):
            raise ServiceError("the service sent an event that is not JSON")
        return event

    def _take(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "id" and "\0" not in value and len(value) <= 64:
            self._id = value
        elif name == "data":
            self._length += len(value)
            if self._length > LONGEST:
                raise ServiceError("the service sent an event without end")
            self._data.append(value)

    def call(self, which: EventQuery) -> ServiceCall[None]:
        """Return the call that opens the stream after the last event."""
        query = {**which, "after": self.last_id}
        return ServiceCall(method="GET", path=EVENTS, read=lambda _: None, query=query)
