"""A silent stream of events sends a comment from time to time, so that no proxy closes it."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.requests import Request

from forewarn.config import Config
from forewarn.operate.access.access import Access
from forewarn.operate.access.credentials import Credentials
from forewarn.operate.events.bus import EventBus
from forewarn.operate.events.filters import EventFilter
from forewarn.serve.rest.auth.caller_watch import CallerWatch
from forewarn.serve.rest.routes import events
from forewarn.store.people_embedded import open_embedded_people
from tests.operate.events.samples import a_job_event

COMMENT = b": still here\n\n"


async def connected() -> MutableMapping[str, Any]:
    """Receive nothing: the caller is there, and silent."""
    await asyncio.Event().wait()
    raise AssertionError


async def read(number: int, home: Path) -> list[bytes]:
    """Read so many parts of a stream without events, and one more after an event."""
    bus, config = EventBus(), Config(home=home)
    with open_embedded_people(home) as people, bus.subscribe() as reader:
        access = Access(config, people)
        app = SimpleNamespace(state=SimpleNamespace(service=SimpleNamespace(access=access, config=config)))
        request = Request({"type": "http", "headers": [], "client": ("127.0.0.1", 1), "app": app}, connected)
        watch = CallerWatch(request, access.authenticate(Credentials(peer="127.0.0.1")))
        wanted = EventFilter(sees=lambda _user, _account: True)
        lines = events._lines(request, reader, wanted, watch)
        parts = [await asyncio.wait_for(anext(lines), 10) for _ in range(number)]
        bus.publish([a_job_event()])
        parts.append(await asyncio.wait_for(anext(lines), 10))
        await lines.aclose()  # type: ignore[attr-defined]
    return parts


def test_heartbeat(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(events, "HEARTBEAT", 0.05)
    monkeypatch.setattr(events, "LOOK", 0.02)
    first, *rest, event = asyncio.run(read(4, tmp_path))
    assert first.startswith(b"retry: ")
    assert rest == [COMMENT] * 3
    assert b"event: forewarn.job.pending" in event


def test_no_heartbeat_before_its_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(events, "LOOK", 0.02)
    first, event = asyncio.run(read(1, tmp_path))
    assert first.startswith(b"retry: ")
    assert COMMENT not in event
