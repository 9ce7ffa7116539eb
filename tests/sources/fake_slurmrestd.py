"""A real HTTP server on loopback that answers by a script, and a clock that takes no time."""

from __future__ import annotations

import json
import socketserver
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

from jwt import encode

from forewarn.sources.slurm.clock import Clock
from forewarn.sources.slurm.retry import RetryPolicy
from forewarn.sources.slurm.windows import WindowLength
from forewarn.sources.slurmrestd.address import Address
from forewarn.sources.slurmrestd.client import SlurmrestdScheduler
from forewarn.sources.slurmrestd.session import RestSession
from forewarn.sources.slurmrestd.tokens import Tokens, from_text
from forewarn.sources.slurmrestd.transport import Transport

NOW = 1_800_000_000


@dataclass
class FakeTime:
    """A clock that moves only while something sleeps."""

    now: float = NOW
    waits: list[float] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds

    @property
    def clock(self) -> Clock:
        return Clock(lambda: self.now, lambda: self.now, self.sleep, lambda: 0.5)


def jwt(user: str = "ann", issued: int = NOW - 10, expires: int = NOW + 3600) -> str:
    return encode({"sun": user, "iat": issued, "exp": expires}, b"the key of nobody's slurmctld here")


@dataclass(frozen=True)
class HttpRequest:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any = None
    all: dict[str, list[str]] = field(default_factory=dict)  # the query, of what is named more than once too


Reply = tuple[int, Any] | None  # None: the connection is closed without an answer
Script = Callable[[HttpRequest], Reply]


def openapi(*versions: int, parameters: tuple[str, ...] = ("skip_steps", "show_duplicates")) -> Any:
    listed = {"get": {"parameters": [{"name": name} for name in parameters]}}
    return {"paths": {f"/{area}/v0.0.{n}/jobs/": listed for n in versions for area in ("slurm", "slurmdb")}}


class FakeSlurmrestd:
    """A server that answers by a script and records requests."""

    def __init__(self, script: Script, socket: Path | None = None, tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[HttpRequest] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                parts = urlsplit(self.path)
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                headers = {name.lower(): value for name, value in self.headers.items()}
                query = dict(parse_qsl(parts.query))
                request = HttpRequest(self.command, parts.path, query, headers, body, parse_qs(parts.query))
                outer.requests.append(request)
                reply = script(request)
                if reply is None:
                    self.close_connection = True
                    return
                status, content = reply
                data = content if isinstance(content, bytes) else json.dumps(content).encode()
                self.send_response_only(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_DELETE = answer  # noqa: N815 - the library's names

            def log_message(self, format: str, *args: Any) -> None:
                pass

        if socket is None:
            tcp = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
            if tls is not None:
                tcp.socket = tls.wrap_socket(tcp.socket, server_side=True)
            self.server: socketserver.BaseServer = tcp
            self.address = f"http{'s' if tls else ''}://127.0.0.1:{tcp.server_address[1]}"
        else:
            self.server = socketserver.ThreadingUnixStreamServer(str(socket), Handler)
            self.address = f"unix:{socket}"

    @property
    def paths(self) -> list[str]:
        return [request.path for request in self.requests]


@contextmanager
def serving(
    script: Script, socket: Path | None = None, tls: ssl.SSLContext | None = None
) -> Iterator[FakeSlurmrestd]:
    fake = FakeSlurmrestd(script, socket, tls)
    thread = threading.Thread(target=fake.server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield fake
    finally:
        fake.server.shutdown()
        fake.server.server_close()
        thread.join()


@contextmanager
def client_of(
    address: str,
    *,
    tokens: Tokens | None = None,
    user: str | None = None,
    time: FakeTime | None = None,
    most_bytes: int = 1 << 20,
    tries: int = 3,
    span: WindowLength | None = None,
    cluster: str | None = None,
    first_without: bool = False,
) -> Iterator[SlurmrestdScheduler]:
    clock = (time or FakeTime()).clock
    transport = Transport(Address.read(address), clock=clock, timeout=2.0, most_bytes=most_bytes)
    session = RestSession(
        transport,
        tokens or from_text(jwt(), "test", clock),
        user=user,
        clock=clock,
        retry=RetryPolicy(tries=tries, clock=clock),
        first_without=first_without,
    )
    scheduler = SlurmrestdScheduler(session, cluster=cluster, span=span)
    try:
        yield scheduler
    finally:
        scheduler.close()
