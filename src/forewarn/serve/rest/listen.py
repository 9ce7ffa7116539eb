"""Run an application on TCP and on a unix socket, and end it cleanly: requests in flight finish."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import signal
import socket
from collections.abc import Callable, Iterator
from types import FrameType

import uvicorn
from fastapi import FastAPI

from forewarn.config import ServeConfig
from forewarn.errors import UsageError
from forewarn.progress import Note, log_note
from forewarn.serve.rest.bounded_protocol import BoundedProtocol
from forewarn.serve.rest.tls import ServerCertificate
from forewarn.serve.rest.unix_socket import BACKLOG, unix_socket

GRACE = 30  # seconds for requests in flight, after SIGTERM


class _Server(uvicorn.Server):
    """A server that leaves signals to its caller, since there may be two of them."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals as they are."""
        yield


Sockets = tuple[socket.socket, socket.socket | None]  # TCP, and a unix socket


@contextlib.contextmanager
def open_sockets(config: ServeConfig) -> Iterator[Sockets]:
    """Open the sockets to listen on, before anything else is started: a port may be in use."""
    with contextlib.ExitStack() as stack:
        tcp = stack.enter_context(_tcp_socket(config.listen))
        local = None
        if config.socket is not None:
            local = stack.enter_context(unix_socket(config.socket, socket.SOCK_STREAM, config.socket_mode))
        yield tcp, local


def run(
    app: FastAPI,
    config: ServeConfig,
    sockets: Sockets,
    certificate: ServerCertificate | None = None,
    *,
    note: Note = log_note,
    on_ready: Callable[[str], None] = lambda _: None,
    on_stop: Callable[[], None] = lambda: None,
) -> None:
    """Serve until SIGTERM or SIGINT; a second signal ends it at once.

    Parameters
    ----------
    certificate
        The certificate for TCP; the unix socket has no TLS.
    on_ready
        Called with the address once requests are accepted.
    on_stop
        Called when the first signal arrives: streams end then, so that the rest can finish.
    """
    tcp, local = sockets
    servers = [_server(app, config, certificate)]
    of_servers = [[tcp]]
    if local is not None and certificate is None:
        of_servers[0].append(local)
    elif local is not None:
        servers.append(_server(app, config, lifespan="off"))
        of_servers.append([local])

    async def serve() -> None:
        following = asyncio.create_task(certificate.follow(note)) if certificate is not None else None
        try:
            await _serve(servers, of_servers, _shown(tcp, config), on_ready, on_stop)
        finally:
            if following is not None:
                following.cancel()

    with asyncio.Runner(loop_factory=servers[0].config.get_loop_factory()) as runner:  # uvloop
        runner.run(serve())


async def _serve(
    servers: list[_Server],
    sockets: list[list[socket.socket]],
    address: str,
    on_ready: Callable[[str], None],
    on_stop: Callable[[], None],
) -> None:
    stops = 0

    def stop(_signal: int, _frame: FrameType | None) -> None:
        nonlocal stops
        stops += 1
        on_stop()
        for server in servers:
            server.should_exit = True
            server.force_exit = stops > 1

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        tasks = [
            asyncio.create_task(server.serve(sockets=own))
            for server, own in zip(servers, sockets, strict=True)
        ]
        while not all(server.started or server.should_exit for server in servers):
            await asyncio.sleep(0.01)
            if any(task.done() for task in tasks):
                break
        if all(server.started for server in servers):
            on_ready(address)
        await asyncio.gather(*tasks)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _server(
    app: FastAPI, config: ServeConfig, certificate: ServerCertificate | None = None, *, lifespan: str = "auto"
) -> _Server:
    settings = uvicorn.Config(
        app,
        http=BoundedProtocol,
        lifespan=lifespan,  # type: ignore[arg-type]
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=True,
        proxy_headers=config.behind_proxy,
        forwarded_allow_ips=list(config.trusted_proxies) if config.behind_proxy else None,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=GRACE,
        backlog=BACKLOG,
    )
    if certificate is not None:
        settings.load()
        settings.ssl = certificate.context  # our own, which can be renewed
    return _Server(settings)


@contextlib.contextmanager
def _tcp_socket(listen: str) -> Iterator[socket.socket]:
    host, _, port = listen.rpartition(":")
    host = host.strip("[]")
    try:
        found = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        with socket.socket(family, kind, protocol) as opened:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            opened.bind(address)
            opened.listen(BACKLOG)
            opened.set_inheritable(True)
            yield opened
    except OSError as error:
        hint = (
            "; another service? choose another port with --listen" if error.errno == errno.EADDRINUSE else ""
        )
        raise UsageError(f"serve.listen: {listen}: {error.strerror or error}{hint}") from None


def _shown(tcp: socket.socket, config: ServeConfig) -> str:
    host, port, *_ = tcp.getsockname()
    scheme = "https" if config.tls_certificate else "http"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
