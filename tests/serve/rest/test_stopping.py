"""Signals: requests in flight are answered, streams end, the exit code is 0; a kill loses nothing."""

from __future__ import annotations

import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from forewarn.serve.rest.examples import JOB
from tests.serve.rest.conftest import Start
from tests.serve.rest.running import RunningService
from tests.serve.rest.test_events import assess, stream

pytestmark = pytest.mark.slow
BATCH = {"jobs": [{**JOB, "job_id": str(number)} for number in range(1, 201)]}
CALLERS = 4
JUST_BEFORE = 0.05  # seconds: what was sent then may not have been read when the connection was closed


class Answer(NamedTuple):
    """What a caller got, and when it had asked."""

    status: int
    is_whole: bool
    begun: float
    ended: float


def test_sigterm_under_load(start: Start, home: Path) -> None:
    """What was sent before the signal is answered; a stream ends; what comes later finds nobody."""
    service = start(home, collect="never")
    answers: list[Answer] = []
    cut_off: list[float] = []  # when the request had begun
    refused = 0
    stop = threading.Event()

    def ask() -> None:
        nonlocal refused
        with httpx.Client(base_url=service.url, timeout=60) as client:
            while not stop.is_set():
                begun = time.monotonic()
                try:
                    answer = client.post("/v1/assess/batch", json=BATCH)
                except httpx.ConnectError:
                    refused += 1
                    return
                except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
                    cut_off.append(begun)  # a kept connection may be closed between two requests
                    return
                whole = len(answer.json()["assessments"]) == len(BATCH["jobs"])
                answers.append(Answer(answer.status_code, whole, begun, time.monotonic()))

    def follow() -> str:
        with httpx.stream("GET", f"{service.url}/v1/events", timeout=60) as answer:
            began.set()
            return "".join(answer.iter_text())

    began = threading.Event()
    with ThreadPoolExecutor(6) as pool:
        asking = [pool.submit(ask) for _ in range(CALLERS)]
        following = pool.submit(follow)
        assert began.wait(30)
        ends = time.monotonic() + 60
        while len(answers) < 8 and time.monotonic() < ends:
            time.sleep(0.05)
        signalled = time.monotonic()
        service.process.send_signal(signal.SIGTERM)
        assert service.process.wait(40) == 0
        assert time.monotonic() - signalled < 35
        stop.set()
        for one in asking:
            one.result(30)
        assert following.result(30).startswith("retry:")  # it ended whole: httpx raises where it is cut off
    assert {(one.status, one.is_whole) for one in answers} == {(200, True)}
    assert [one for one in answers if one.begun < signalled < one.ended], "none was in flight"
    assert all(begun > signalled - JUST_BEFORE for begun in cut_off), "a request in flight was cut off"
    assert refused + len(cut_off) == CALLERS
    assert "Traceback" not in service.text


def test_a_request_in_flight_is_answered_whole(start: Start, home: Path) -> None:
    service = start(home, collect="never")
    big = {"jobs": [{**JOB, "job_id": str(number)} for number in range(1, 10_001)]}
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(httpx.post, f"{service.url}/v1/assess/batch", json=big, timeout=60)
        time.sleep(0.3)
        assert not asked.done()
        service.process.send_signal(signal.SIGTERM)
        try:
            answer = asked.result(60)
        except httpx.ConnectError:
            pytest.fail("the request had been sent before the signal")
    assert len(answer.json()["assessments"]) == 10_000
    assert service.process.wait(40) == 0


def test_sigkill_and_restart(start: Start, home: Path) -> None:
    """A stream goes on after the last id that its reader has."""
    service = start(home, collect="never")
    with stream(service.url) as first:
        assess(home, "1", "2")
        assert first.subjects(2) == ["1", "2"]
        last = first.last_id
    service.process.kill()
    service.process.wait(10)
    assess(home, "3")
    again: RunningService = start(home, collect="never")
    with stream(again.url, params={"after": last}) as second:
        assert second.subjects(1) == ["3"]
    assert again.stop() == 0
