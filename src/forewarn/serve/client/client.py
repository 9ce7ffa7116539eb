"""`Client`: ask a service from Python.

>>> with Client("http://127.0.0.1:8765") as client:
...     str(client.address)
'http://127.0.0.1:8765'
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, Unpack

import httpx

from forewarn.serve.client import calls, exchange
from forewarn.serve.client.address import service_address
from forewarn.serve.client.answers import JobRow
from forewarn.serve.client.call import ServiceCall
from forewarn.serve.client.event_lines import SILENCE, WAIT, EventLines, EventQuery

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


def _asks(
    make: Callable[Arguments, ServiceCall[Answer]],
) -> Callable[Concatenate[Client, Arguments], Answer]:
    """Return the method that sends a call."""

    @wraps(make)
    def method(self: Client, /, *args: Arguments.args, **how: Arguments.kwargs) -> Answer:
        return self.send(make(*args, **how))

    return method


class Client:
    """A connection to a service; threads may share it. Close it, or use it in a `with`.

    Parameters
    ----------
    url
        ``http://host:8765``, ``https://host`` or ``unix:/path``; else `FOREWARN_URL`.
    token
        A token of the service or of OIDC; else `FOREWARN_TOKEN`.
    slurm_token
        A token of Slurm; else `SLURM_JWT`, unless there is a `token`.
    user
        Whose Slurm token it is; else the user of this process.
    ca_file
        CA certificates, if not the system's; else `FOREWARN_CA_FILE`.
    timeout
        Seconds to wait for an answer.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        slurm_token: str | None = None,
        user: str | None = None,
        ca_file: str | Path | None = None,
        timeout: float = exchange.TIMEOUT,
    ) -> None:
        self.address = service_address(url, token=token, slurm_token=slurm_token, user=user, ca_file=ca_file)
        transport = httpx.HTTPTransport(uds=self.address.socket, verify=exchange.tls_settings(self.address))
        self._http = httpx.Client(transport=transport, **exchange.http_settings(self.address, timeout))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({str(self.address)!r})"

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def send(self, call: ServiceCall[Answer]) -> Answer:
        """Send a call and return its answer; one that changes nothing again, if the connection broke."""
        for left in reversed(range(exchange.tries_of(call))):
            try:
                with self._stream(call) as response:
                    body = self._body(response)
                return exchange.answer_of(call, self.address, response, body)
            except httpx.TransportError as error:
                if not left or not exchange.is_connection_error(error):
                    raise exchange.away(self.address, error) from None
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                raise exchange.away(self.address, error) from None
        raise AssertionError("unreachable")

    def _stream(self, call: ServiceCall[Any], timeout: float | None = None) -> closing[httpx.Response]:
        request = exchange.request_of(self._http, call)
        if timeout is not None:
            request.extensions["timeout"] = {**request.extensions["timeout"], "read": timeout}
        return closing(self._http.send(request, stream=True))

    def _body(self, response: httpx.Response) -> bytes:
        parts, size = [], 0
        for part in response.iter_bytes():
            size += len(part)
            if size > exchange.LARGEST:
                raise exchange.too_large(self.address)
            parts.append(part)
        return b"".join(parts)

    assess = _asks(calls.assess)
    assess_batch = _asks(calls.assess_batch)
    check = _asks(calls.check)
    jobs_page = _asks(calls.jobs_page)
    assessments_page = _asks(calls.assessments_page)
    job = _asks(calls.job)
    explain = _asks(calls.explain)
    advise = _asks(calls.advise)
    retry = _asks(calls.retry)
    submit = _asks(calls.submit)
    cancel = _asks(calls.cancel)
    resubmit = _asks(calls.resubmit)
    health = _asks(calls.health)
    exclude = _asks(calls.exclude)
    models = _asks(calls.models)
    thresholds = _asks(calls.thresholds)
    set_threshold = _asks(calls.set_threshold)
    reset_threshold = _asks(calls.reset_threshold)
    trends = _asks(calls.trends)
    notices = _asks(calls.notices)
    acknowledge = _asks(calls.acknowledge)
    silences = _asks(calls.silences)
    silence = _asks(calls.silence)
    lift_silence = _asks(calls.lift_silence)
    subscription = _asks(calls.subscription)
    subscribe = _asks(calls.subscribe)
    alive = _asks(calls.alive)
    ready = _asks(calls.ready)

    def jobs(self, *, limit: int = 1000, **which: Unpack[calls.JobQuery]) -> Iterator[JobRow]:
        """Yield the jobs that match, page by page; `limit` is the size of a page."""
        after = None
        while True:
            page = self.jobs_page(limit=limit, after=after, **which)
            yield from page["jobs"]
            after = page["next"]
            if after is None:
                return

    def events(
        self, *, after: str | None = None, resume: bool = True, **which: Unpack[EventQuery]
    ) -> Generator[dict[str, Any]]:
        """Yield events as they come: those after an id, else from now on.

        With `resume`, a stream that ends or breaks is opened again after the last event; if the service does
        not answer then, `ServiceAwayError` is raised.
        """
        lines = EventLines(after)
        while True:
            call = lines.call(which)
            try:
                with self._stream(call, SILENCE) as response:
                    if not response.is_success:
                        exchange.raise_problem(self.address, response, self._body(response))
                    for line in response.iter_lines():
                        if (event := lines.feed(line)) is not None:
                            yield event
            except httpx.ConnectError as error:
                raise exchange.away(self.address, error) from None
            except httpx.TransportError as error:
                if not resume:
                    raise exchange.away(self.address, error) from None
            if not resume:
                return
            time.sleep(WAIT)
