"""`/v1/events` over real HTTP: what readers get, from where they continue, how streams end."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from forewarn.config import Config
from forewarn.operate.events.event import Event
from forewarn.operate.events.open_streams import MOST_OF_A_CALLER
from forewarn.operate.predict import save_assessments
from forewarn.store.opening import open_store
from tests.operate.events.samples import an_assessment
from tests.serve.rest.conftest import Start
from tests.serve.rest.running import RunningService

pytestmark = pytest.mark.slow
WITHIN = 30.0  # seconds


def assess(home: Path, *job_ids: str, **fields: Any) -> None:
    """Save assessments as another process does."""
    with open_store(Config(home=home)) as store:
        save_assessments(store, [an_assessment(job_id, **fields) for job_id in job_ids])


class Stream:
    """A reader of server-sent events."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines
        self.last_id: str | None = None

    def next_event(self) -> dict[str, str]:
        fields: dict[str, str] = {}
        for line in self._lines:
            if not line and "data" in fields:
                return fields
            name, _, value = line.partition(": ")
            if line and name:
                fields[name] = value
                self.last_id = fields.get("id", self.last_id)
        raise EOFError

    def subjects(self, number: int) -> list[str]:
        """Return the jobs of the next assessments, and check each event's form."""
        found: list[str] = []
        while len(found) < number:
            fields = self.next_event()
            event = Event.from_json(json.loads(fields["data"]))
            assert event.type.value == fields["event"]
            if fields["event"] == "forewarn.assessment":
                assert event.id == fields["id"]
                found.append(event.subject)
            else:
                assert "id" not in fields  # a gap
        return found


@contextmanager
def stream(url: str, **options: Any) -> Iterator[Stream]:
    with (
        httpx.Client(base_url=url, timeout=WITHIN) as client,
        client.stream("GET", "/v1/events", **options) as answer,
    ):
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-store"
        lines = answer.iter_lines()
        assert next(lines).startswith("retry: ")
        yield Stream(lines)


def test_a_reader_gets_new_assessments_and_continues_after_the_last_one(home: Path, start: Start) -> None:
    service = start(home, collect="never")
    with stream(service.url) as first:
        assess(home, "1", "2", "3")
        assert first.subjects(2) == ["1", "2"]
        place = first.last_id
        assert place
    assess(home, "4")
    for how in ({"headers": {"Last-Event-ID": place}}, {"params": {"after": place}}):
        with stream(service.url, **how) as again:
            assert again.subjects(2) == ["3", "4"]
    assert service.stop() == 0
    assess(home, "5")  # while no service runs
    service = start(home, collect="never")
    with stream(service.url, headers={"Last-Event-ID": place}) as after_restart:
        assert after_restart.subjects(3) == ["3", "4", "5"]
        assess(home, "6")
        assert after_restart.subjects(1) == ["6"]


def test_filters_leave_others_out(home: Path, start: Start) -> None:
    service = start(home, collect="never")
    with (
        stream(service.url, params={"user": "bob"}) as of_bob,
        stream(service.url, params={"hours_at_risk": 10}) as risky,
        stream(service.url, params={"type": "forewarn.assessment", "cluster": "c"}) as of_cluster,
    ):
        assess(home, "1", user="ann", hours_at_risk=3.0)
        assess(home, "2", user="bob", hours_at_risk=4.0)
        assess(home, "3", user="ann", hours_at_risk=50.0)
        assess(home, "4", user="bob", cluster="d", made_at=201)
        assert of_bob.subjects(2) == ["2", "4"]
        assert risky.subjects(1) == ["3"]
        assert of_cluster.subjects(3) == ["1", "2", "3"]


@pytest.mark.parametrize(
    "params",
    [
        {"after": "yesterday"},
        {"after": "1" * 65},
        {"type": "forewarn.nothing"},
        {"hours_at_risk": "-1"},
        {"hours_at_risk": "nan"},
        {"since": "now"},
    ],
)
def test_wrong_parameters_are_refused(http: httpx.Client, params: dict[str, str]) -> None:
    answer = http.get("/v1/events", params=params)
    assert answer.status_code in (400, 422), answer.text
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_caller_has_so_many_streams_and_gets_them_back(service: RunningService) -> None:
    with ExitStack() as stack:
        for _ in range(MOST_OF_A_CALLER):
            stack.enter_context(open_raw(service.url))
        refused = httpx.get(f"{service.url}/v1/events", timeout=WITHIN)
        assert (refused.status_code, refused.json()["code"]) == (429, "rate_limited")
        assert int(refused.headers["retry-after"]) > 0
    ends = time.monotonic() + WITHIN
    while time.monotonic() < ends:
        with httpx.stream("GET", f"{service.url}/v1/events", timeout=WITHIN) as answer:
            if answer.status_code == 200:
                return
        time.sleep(0.2)
    raise AssertionError("streams that were left count still")


def open_raw(url: str) -> socket.socket:
    """Open a stream that nobody reads."""
    host, _, port = url.removeprefix("http://").rpartition(":")
    connection = socket.create_connection((host, int(port)), timeout=WITHIN)
    connection.sendall(f"GET /v1/events HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    assert connection.recv(12) == b"HTTP/1.1 200"
    return connection


def test_a_reader_that_does_not_read_holds_nobody_up(home: Path, start: Start) -> None:
    service = start(home, collect="never")
    stuck = open_raw(service.url)
    with stuck, stream(service.url) as quick:
        name = "x" * 1000
        for part in range(3):
            assess(home, *(f"{part}{number:03}" for number in range(700)), name=name)
        assert len(quick.subjects(2100)) == 2100
        begin = time.monotonic()
        assert httpx.get(f"{service.url}/healthz", timeout=WITHIN).status_code == 200
        assert time.monotonic() - begin < 5
        assert service.stop() == 0  # and not the end either


def test_streams_end_when_the_service_stops(home: Path, start: Start) -> None:
    service = start(home, collect="never")
    with stream(service.url) as reader:
        begin = time.monotonic()
        stopping = threading.Thread(target=service.stop)
        stopping.start()
        with pytest.raises(EOFError):
            reader.next_event()
        stopping.join()
    assert time.monotonic() - begin < 20
    assert service.process.returncode == 0
    assert "Traceback" not in service.text
