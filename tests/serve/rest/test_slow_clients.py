"""Clients that are slow, large or many: none of them keeps the service from answering the others."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from urllib.parse import urlsplit

import httpx
import pytest

from forewarn.serve.rest.bounded_protocol import HEAD_WITHIN, MOST_BYTES_OF_HEAD
from tests.serve.rest.running import RunningService

pytestmark = pytest.mark.slow


def connect(service: RunningService) -> socket.socket:
    parts = urlsplit(service.url)
    return socket.create_connection((parts.hostname, parts.port), timeout=HEAD_WITHIN + 20)


def received(connection: socket.socket) -> bytes:
    """Read until the service closes the connection."""
    parts = []
    try:
        while part := connection.recv(65536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def problem(answer: bytes) -> dict[str, object]:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"application/problem+json" in head, answer
    found: dict[str, object] = json.loads(body)
    return found


def test_slow_headers_have_an_end(service: RunningService, http: httpx.Client) -> None:
    """A header byte a second; a connection without a request; meanwhile others are answered."""
    with connect(service) as slow, connect(service) as silent:
        begun = time.monotonic()
        slow.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
        try:
            while time.monotonic() - begun < HEAD_WITHIN + 10:
                slow.sendall(b"a")
                assert http.get("/healthz").status_code == 200
                time.sleep(1)
        except OSError:
            pass  # the service has closed it
        assert HEAD_WITHIN - 1 < time.monotonic() - begun < HEAD_WITHIN + 10
        assert received(silent) == b""


@pytest.mark.parametrize("way", ["one header", "many headers", "address", "without end"])
def test_a_large_head_is_refused(service: RunningService, http: httpx.Client, way: str) -> None:
    size = MOST_BYTES_OF_HEAD + 1000
    head = {
        "one header": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A: " + b"a" * size + b"\r\n\r\n",
        "many headers": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
        + b"X-A: 1\r\n" * (size // 4)
        + b"\r\n",
        "address": b"GET /healthz?a=" + b"a" * size + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "without end": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A: " + b"a" * (50 * size),
    }[way]
    with connect(service) as connection:
        with contextlib.suppress(OSError):  # refused before all was sent
            connection.sendall(head)
        answer = received(connection)
    if answer:  # a reset can overtake it
        assert problem(answer)["status"] in (400, 431)
    assert http.get("/healthz").status_code == 200


def test_what_is_not_http_is_refused(service: RunningService, http: httpx.Client) -> None:
    for data in (
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 100,
        b"\0\0\0\0\r\n\r\n",
        b"FOO\r\n\r\n",
    ):
        with connect(service) as connection:
            connection.sendall(data)
            assert problem(received(connection))["status"] == 400
    assert http.get("/healthz").status_code == 200


def test_a_body_that_never_comes_holds_nobody_up(service: RunningService) -> None:
    """The client announces a body and sends none: it holds no thread, and others are answered."""
    with connect(service) as connection:
        connection.sendall(b"POST /v1/assess HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{")
        assert httpx.post(f"{service.url}/v1/assess", json={"time_limit": 60}, timeout=30).status_code == 200


def test_many_connections(service: RunningService, http: httpx.Client) -> None:
    """Three hundred connections that wait, while others are answered."""
    waiting = [connect(service) for _ in range(300)]
    try:
        begun = time.monotonic()
        assert http.get("/readyz").status_code == 200
        assert time.monotonic() - begun < 10
        for connection in waiting[::10]:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        for connection in waiting[::10]:
            assert received(connection).startswith(b"HTTP/1.1 200")
    finally:
        for connection in waiting:
            connection.close()


def test_callers_that_leave(service: RunningService, http: httpx.Client) -> None:
    """Callers who give up before the answer leave nothing behind."""
    for _ in range(20):
        with connect(service) as connection:
            body = b'{"time_limit": 60}'
            connection.sendall(
                b"POST /v1/assess HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%b"
                % (len(body), body)
            )
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        metrics = http.get("/metrics").text
        (in_flight,) = [
            line for line in metrics.splitlines() if line.startswith("forewarn_http_requests_in_flight ")
        ]
        if float(in_flight.split()[1]) <= 1:  # this one
            break
        time.sleep(0.2)
    else:
        pytest.fail(in_flight)
    assert "Traceback" not in service.text
