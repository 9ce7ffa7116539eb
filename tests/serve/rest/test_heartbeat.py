"""A silent stream of events sends a comment from time to time, so that no proxy closes it."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

import pytest
from starlette.requests import Request

from forewarn.operate.events.bus import EventBus
from forewarn.operate.events.filters import EventFilter
from forewarn.serve.rest.routes import events
from tests.operate.events.samples import a_job_event

COMMENT = b": still here\n\n"


async def connected() -> MutableMapping[str, Any]:
    """Receive nothing: the caller is there, and silent."""
    await asyncio.Event().wait()
    raise AssertionError


async def read(number: int) -> list[bytes]:
    """Read so many parts of a stream without events, and one more after an event."""
    bus = EventBus()
    request = Request({"type": "http", "headers": []}, connected)
    with bus.subscribe() as reader:
        wanted = EventFilter(sees=lambda _user, _account: True)
        lines = events._lines(request, reader, wanted)
        parts = [await asyncio.wait_for(anext(lines), 10) for _ in range(number)]
        bus.publish([a_job_event()])
        parts.append(await asyncio.wait_for(anext(lines), 10))
        await lines.aclose()  # type: ignore[attr-defined]
    return parts


def test_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "HEARTBEAT", 0.05)
    monkeypatch.setattr(events, "LOOK", 0.02)
    first, *rest, event = asyncio.run(read(4))
    assert first.startswith(b"retry: ")
    assert rest == [COMMENT] * 3
    assert b"event: forewarn.job.pending" in event


def test_no_heartbeat_before_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "LOOK", 0.02)
    first, event = asyncio.run(read(1))
    assert first.startswith(b"retry: ")
    assert COMMENT not in event
