"""HTTP with bounds on the head of a request: its size, and the time within which it must arrive.

uvicorn waits for the first request of a connection as long as the client likes, and keeps all headers that it
sends: a client that sends one byte a minute, or headers without end, would hold a connection, or all memory.
The body has bounds of its own (`middleware.py`).
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from forewarn.serve.rest.auth.peer import PeerProtocol
from forewarn.serve.rest.problems import HttpProblem

MOST_BYTES_OF_HEAD = 64 << 10  # request line and headers
HEAD_WITHIN = 20.0  # seconds from the connection, or from the first byte of a further request


class BoundedProtocol(PeerProtocol):
    """HTTP of uvicorn that refuses heads of requests which are too large or too slow."""

    _in_head = True  # since the connection; from then on until headers are complete
    _bytes_of_head = 0  # of earlier parts
    _bytes_of_part = 0
    _timer: asyncio.TimerHandle | None = None
    _refusal = HttpProblem(status=400, code="bad_request", detail="this is not a request of HTTP/1.1")

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request, not for ever."""
        super().connection_made(transport)
        self._timer = self.loop.call_later(HEAD_WITHIN, self._refuse_slow)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timer."""
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what arrived; a head that did not arrive whole has its time and its size."""
        self._bytes_of_part = len(data)
        super().data_received(data)
        if self._in_head and not self.transport.is_closing():
            self._bytes_of_head += len(data)
            if self._bytes_of_head > MOST_BYTES_OF_HEAD:
                self._refuse_large()
            elif self._timer is None:
                self._timer = self.loop.call_later(HEAD_WITHIN, self._refuse_slow)

    def on_message_begin(self) -> None:
        """Begin the head of a request."""
        super().on_message_begin()
        self._in_head, self._bytes_of_head = True, 0

    def on_headers_complete(self) -> None:
        """End the head of a request."""
        self._in_head = False
        self._stop_timer()
        if self._bytes_of_head + self._bytes_of_part > MOST_BYTES_OF_HEAD and self._is_large():
            self._refusal = _TOO_LARGE
            raise ValueError("the head of the request is too large")  # for the parser, which refuses it
        super().on_headers_complete()

    def _is_large(self) -> bool:
        """Check the size of a head: what arrived may be a body too."""
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        return size > MOST_BYTES_OF_HEAD

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - in our own words
        """Refuse in the form of all other errors, and close the connection."""
        self._stop_timer()
        problem = self._refusal.response()
        content = bytes(problem.body)
        headers = b"content-type: application/problem+json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"
        self.transport.write(STATUS_LINE[problem.status_code] + headers % len(content) + content)
        self.transport.close()

    def _refuse_large(self) -> None:
        self._refusal = _TOO_LARGE
        self.send_400_response("")

    def _refuse_slow(self) -> None:
        """Close a connection whose request does not come; to one that sent nothing there is no answer."""
        self._timer = None
        if self._in_head and not self.transport.is_closing():
            if self._bytes_of_head:
                self._refusal = _TOO_SLOW
                self.send_400_response("")
            else:
                self.transport.close()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


_TOO_LARGE = HttpProblem(
    status=431,
    code="too_large",
    detail=f"the address and the headers have more than {MOST_BYTES_OF_HEAD} bytes together",
)
_TOO_SLOW = HttpProblem(
    status=408, code="too_slow", detail=f"the headers did not arrive within {HEAD_WITHIN:.0f} seconds"
)
