"""One request to slurmrestd at a time, and its whole answer, on disk where it is large.

slurmrestd says nothing until its answer is ready, then all of it at once: the time limit is that of the
query. An answer is parsed only when it is whole, so a request that fails halfway can be made again.
"""

from __future__ import annotations

import errno
import json
import os
import ssl
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import httpx

from forewarn import __version__
from forewarn.errors import (
    LargeAnswerError,
    LostAnswerError,
    NoAccessError,
    SchedulerError,
    SlowAnswerError,
    UnreachableError,
    UsageError,
)
from forewarn.sources.slurm.clock import Clock
from forewarn.sources.slurm.scratch import fill, scratch_file
from forewarn.sources.slurmrestd.address import Address

_CONNECT = 5.0  # seconds


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back; `body` is at its beginning, and gone when it is closed."""

    status: int
    body: IO[bytes]
    size: int
    at: int  # Unix seconds by our clock
    date: str | None = None  # the server's, where it or a proxy says it

    def json(self) -> Any:
        """All of it, None where it is no JSON: for small answers."""
        try:
            return json.load(self.body)
        except ValueError:
            return None
        finally:
            self.body.seek(0)

    def __enter__(self) -> Answer:
        return self

    def __exit__(self, *_: object) -> None:
        self.body.close()


class Transport:
    """HTTP over TCP, TLS or a unix socket."""

    def __init__(
        self,
        address: Address,
        *,
        ca_file: Path | None = None,
        timeout: float = 60.0,
        most_bytes: int = 512 << 20,
        clock: Clock | None = None,
        http: httpx.BaseTransport | None = None,
    ) -> None:
        self.address = address
        self.requests = 0  # made so far: what we ask of Slurm is counted
        self.received = 0  # bytes
        self._most_bytes = most_bytes
        self._clock = clock or Clock()
        self._in_flight = threading.Lock()
        # A proxy that the environment names is for the Internet, not for the scheduler: trust_env.
        # One connection a request: none is found dead when the server was restarted in between.
        limits = httpx.Limits(max_connections=1, max_keepalive_connections=0)
        self._client = httpx.Client(
            base_url=address.url,
            transport=http
            or httpx.HTTPTransport(verify=_trusted(ca_file), limits=limits, uds=address.socket),
            timeout=httpx.Timeout(timeout, connect=_CONNECT),
            headers={
                "User-Agent": f"forewarn/{__version__}",
                "Accept": "application/json",
                "Connection": "close",
            },
            trust_env=False,
        )

    def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str | int | Sequence[str]] | None = None,
        headers: Mapping[str, str] | None = None,
        content: Any = None,
    ) -> Answer:
        """The answer to one request, whatever its status."""
        body = scratch_file()
        try:
            with self._in_flight, self._named(path):
                self._look_at_socket()
                self.requests += 1
                sent = {"json": content} if content is not None else {}
                with self._client.stream(
                    method, path, params=dict(query or {}), headers=dict(headers or {}), **sent
                ) as response:
                    size = fill(body, self._chunks(response, path))
        except BaseException:
            body.close()
            raise
        return Answer(response.status_code, body, size, int(self._clock.now()), response.headers.get("Date"))

    def _chunks(self, response: httpx.Response, path: str) -> Iterator[bytes]:
        size = 0
        for chunk in response.iter_bytes(1 << 18):
            size += len(chunk)
            self.received += len(chunk)
            if size > self._most_bytes:
                raise LargeAnswerError(
                    f"{self.address}: the answer to {path} is larger than {self._most_bytes >> 20} MB"
                )
            yield chunk

    @contextmanager
    def _named(self, path: str) -> Iterator[None]:
        """What a network may do, as an error of ours that says what to look at."""
        try:
            yield
        except httpx.ConnectTimeout:
            raise UnreachableError(
                f"{self.address}: no connection within {_CONNECT:.0f} s: is the host right, is a "
                "firewall between?"
            ) from None
        except httpx.ConnectError as error:
            raise self._unconnected(error) from None
        except httpx.TimeoutException:
            raise SlowAnswerError(
                f"{self.address}: no answer to {path} in time: slurmrestd, slurmctld or slurmdbd is "
                "overloaded, or the question was too large"
            ) from None
        except httpx.TransportError as error:
            raise LostAnswerError(
                f"{self.address}: the connection ended before the answer to {path} did ({error}): slurmrestd "
                "may have died or been restarted; is it running, was it out of memory?"
            ) from None

    def _look_at_socket(self) -> None:
        """Beforehand, since the system says the least of what is wrong with a socket."""
        socket = self.address.socket
        if socket is None or os.access(socket, os.R_OK | os.W_OK):
            return
        try:
            os.stat(socket)  # noqa: PTH116 - what a path cannot tell: missing, or not to be seen
        except FileNotFoundError:
            raise UnreachableError(
                f"{socket}: no such socket: is the path the one that slurmrestd was started with "
                "(unix:PATH), and is it running?"
            ) from None
        except OSError:
            pass
        raise NoAccessError(
            f"{socket}: this user may not open the socket: it needs write permission on it, and search "
            "permission on its folders (chmod, or the group that slurmrestd runs as)"
        )

    def _unconnected(self, error: httpx.ConnectError) -> SchedulerError:
        cause = _system_error(error)
        if isinstance(cause, ssl.SSLError):
            why = getattr(cause, "verify_message", None) or cause.reason or str(cause)
            return NoAccessError(
                f"{self.address}: no trusted TLS connection: {why}. Name the site's certificates by "
                "slurm_ca_file; if the server speaks no TLS, the address begins with http://"
            )
        code = cause.errno if cause is not None else None
        if code == errno.ECONNREFUSED:
            return UnreachableError(f"{self.address}: nothing listens there: is slurmrestd running?")
        return UnreachableError(f"{self.address}: cannot be reached: {error}; is the address right?")

    def close(self) -> None:
        """Let go of the connection."""
        self._client.close()


def _trusted(ca_file: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(
            f"slurm_ca_file: {ca_file}: holds no certificates that can be read: {error}"
        ) from None


def _system_error(error: BaseException) -> OSError | None:
    """What the system said; it lies below the errors of two libraries."""
    seen: BaseException | None = error
    while seen is not None and not isinstance(seen, OSError):
        seen = seen.__cause__ or seen.__context__
    return seen
