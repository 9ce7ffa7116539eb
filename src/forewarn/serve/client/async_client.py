"""`AsyncClient`: ask a service from asyncio; the calls are those of `Client`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
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
) -> Callable[Concatenate[AsyncClient, Arguments], Awaitable[Answer]]:
    """Return the method that sends a call."""

    @wraps(make)
    async def method(self: AsyncClient, /, *args: Arguments.args, **how: Arguments.kwargs) -> Answer:
        return await self.send(make(*args, **how))

    return method


class AsyncClient:
    """A connection to a service for asyncio; the parameters are those of `Client`."""

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
        verify = exchange.tls_settings(self.address)
        transport = httpx.AsyncHTTPTransport(uds=self.address.socket, verify=verify)
        self._http = httpx.AsyncClient(transport=transport, **exchange.http_settings(self.address, timeout))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"AsyncClient({str(self.address)!r})"

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def send(self, call: ServiceCall[Answer]) -> Answer:
        """Send a call and return its answer; one that changes nothing again, if the connection broke."""
        for left in reversed(range(exchange.tries_of(call))):
            try:
                async with await self._stream(call) as response:
                    body = await self._body(response)
                return exchange.answer_of(call, self.address, response, body)
            except httpx.TransportError as error:
                if not left or not exchange.is_connection_error(error):
                    raise exchange.away(self.address, error) from None
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                raise exchange.away(self.address, error) from None
        raise AssertionError("unreachable")

    async def _stream(self, call: ServiceCall[Any], timeout: float | None = None) -> aclosing[httpx.Response]:
        request = exchange.request_of(self._http, call)
        if timeout is not None:
            request.extensions["timeout"] = {**request.extensions["timeout"], "read": timeout}
        return aclosing(await self._http.send(request, stream=True))

    async def _body(self, response: httpx.Response) -> bytes:
        parts, size = [], 0
        async for part in response.aiter_bytes():
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

    async def jobs(self, *, limit: int = 1000, **which: Unpack[calls.JobQuery]) -> AsyncIterator[JobRow]:
        """Yield the jobs that match, page by page; `limit` is the size of a page."""
        after = None
        while True:
            page = await self.jobs_page(limit=limit, after=after, **which)
            for row in page["jobs"]:
                yield row
            after = page["next"]
            if after is None:
                return

    async def events(
        self, *, after: str | None = None, resume: bool = True, **which: Unpack[EventQuery]
    ) -> AsyncGenerator[dict[str, Any]]:
        """Yield events as they come: those after an id, else from now on; see `Client.events`."""
        lines = EventLines(after)
        while True:
            try:
                async with await self._stream(lines.call(which), SILENCE) as response:
                    if not response.is_success:
                        exchange.raise_problem(self.address, response, await self._body(response))
                    async for line in response.aiter_lines():
                        if (event := lines.feed(line)) is not None:
                            yield event
            except httpx.ConnectError as error:
                raise exchange.away(self.address, error) from None
            except httpx.TransportError as error:
                if not resume:
                    raise exchange.away(self.address, error) from None
            if not resume:
                return
            await asyncio.sleep(WAIT)
