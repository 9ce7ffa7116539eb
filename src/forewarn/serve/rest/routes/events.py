"""`GET /v1/events`: events of jobs and new assessments as server-sent events, resumable by id."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from time import monotonic
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from forewarn.operate.events.bus import BusReader
from forewarn.operate.events.event import Event, EventType
from forewarn.operate.events.filters import EventFilter
from forewarn.operate.events.open_streams import OpenStreams
from forewarn.serve.rest.auth.caller_watch import CallerWatch
from forewarn.serve.rest.dependencies import IdentityDependency, ServiceDependency
from forewarn.serve.rest.documented import answers
from forewarn.serve.rest.parameters import ClusterParameter

router = APIRouter(tags=["events"])
HEARTBEAT = 15.0  # seconds: proxies close what is silent for a minute
LOOK = 2.0  # seconds between looks whether the caller is still there
WATCH = 5.0  # seconds between looks whether the caller may still see it, while nothing can be sent
LONGEST = 3600.0  # seconds of one stream
RETRY = 3000  # milliseconds until a browser comes back
_DESCRIPTION = (
    "A stream of server-sent events: `id`, `event` (the type) and `data`, one line with a CloudEvents "
    "envelope (docs/events.schema.json). It ends after an hour, when the rights of the caller change "
    "or end, and when the service stops: come back with the last id."
)


def _responses() -> dict[int | str, dict[str, Any]]:
    stream = {"description": _DESCRIPTION, "content": {"text/event-stream": {"schema": {"type": "string"}}}}
    return answers({}) | {200: stream}


def open_streams(request: Request) -> OpenStreams:
    """Return the count of open streams of the app."""
    state = request.app.state
    if not hasattr(state, "streams"):
        state.streams = OpenStreams()
    streams: OpenStreams = state.streams
    return streams


@router.get(
    "/events",
    summary="Stream of events",
    response_class=StreamingResponse,
    responses=_responses(),
)
async def stream(
    request: Request,
    service: ServiceDependency,
    identity: IdentityDependency,
    event_type: Annotated[
        list[EventType] | None,
        Query(alias="type", description="Only these types; default: all.", max_length=9),
    ] = None,
    user: Annotated[str | None, Query(description="Only jobs of this user.", max_length=256)] = None,
    cluster: ClusterParameter = None,
    hours_at_risk: Annotated[
        float | None,
        Query(description="Only assessments with at least so many node hours at risk.", ge=0, le=1e9),
    ] = None,
    after: Annotated[
        str | None, Query(description="The id of the last event that you have.", max_length=64)
    ] = None,
    last_event_id: Annotated[
        str | None, Header(description="The same, as browsers send it; it goes before.", max_length=64)
    ] = None,
) -> StreamingResponse:
    """Stream the events of jobs that the caller may see: those after an id, or those from now on."""
    wanted = EventFilter(
        sees=identity.sees,
        types=frozenset(event_type or ()),
        user=user,
        cluster=cluster,
        least_hours=hours_at_risk,
    )
    streams, caller, watch = open_streams(request), identity.user, CallerWatch(request, identity)
    reader = await asyncio.to_thread(service.bus.subscribe, last_event_id or after)
    try:
        streams.begin(caller)
    except BaseException:
        reader.close()
        raise

    def end() -> None:
        reader.close()
        streams.end(caller)

    return _EventStream(_lines(request, reader, wanted, watch), watch, end)


class _EventStream(StreamingResponse):
    """A stream that calls a function at its end, even if the caller left before it began.

    FastAPI's own EventSourceResponse begins to answer before the route runs, so that a wrong id or too many
    streams could no longer be refused.
    """

    media_type = "text/event-stream"

    def __init__(self, parts: AsyncIterator[bytes], watch: CallerWatch, on_end: Callable[[], None]) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}  # nginx: send each event at once
        super().__init__(parts, headers=headers)
        self._watch, self._on_end = watch, on_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        watching = None
        try:
            async with asyncio.timeout(None) as limit:
                watching = asyncio.create_task(self._cut_when_changed(limit))
                await super().__call__(scope, receive, send)
        except TimeoutError:
            if not limit.expired():
                raise
        finally:
            if watching is not None:
                watching.cancel()
            self._on_end()

    async def _cut_when_changed(self, limit: asyncio.Timeout) -> None:
        """Cut off a stream whose caller does not read: what waits to be sent may no longer be theirs to see.

        One that is read ends by itself before (`_lines`).
        """
        while await self._watch.is_unchanged():
            await asyncio.sleep(WATCH)
        await asyncio.sleep(2 * LOOK)
        limit.reschedule(0)


async def _lines(
    request: Request, reader: BusReader, wanted: EventFilter, watch: CallerWatch
) -> AsyncIterator[bytes]:
    """Yield the text of the stream; sending waits for the caller, publishing does not."""
    begun = sent_at = monotonic()
    yield f"retry: {RETRY}\n\n".encode()
    while not reader.is_closed and monotonic() - begun < LONGEST:
        events = await asyncio.to_thread(reader.poll) if reader.may_block else reader.poll()
        part = b"".join(_as_sent(event) for event in events if wanted.matches(event))
        if not part and monotonic() - sent_at >= HEARTBEAT:
            part = b": still here\n\n"
        # Before anything is sent: a token may have been revoked meanwhile, a role lost.
        if (part or not events) and not await watch.is_unchanged():
            return
        if part:
            sent_at = monotonic()
            yield part
        elif events:
            await asyncio.sleep(0)  # others' events only: let other tasks work
        else:
            await reader.wait_async(LOOK)
            if await request.is_disconnected():
                return


def _as_sent(event: Event) -> bytes:
    """Write an event; a gap has no id, so that a caller's last id stays that of an event."""
    place = "" if event.type is EventType.GAP else f"id: {event.id}\n"
    return f"{place}event: {event.type.value}\ndata: {event.text}\n\n".encode(errors="replace")
