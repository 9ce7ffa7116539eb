"""HTTP requests to slurmrestd, one at a time; a whole answer each, on disk where it is large.

slurmrestd sends nothing until its answer is ready, then all of it at once: the time limit is that of the
query. An answer is parsed only when it is whole, so a request that fails halfway can be sent again.
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
    """An answer; `body` is at its beginning, and deleted when it is closed."""

    status: int
    body: IO[bytes]
    size: int
    at: int  # Unix seconds by this host's clock
    date: str | None = None  # of the server, where it or a proxy sends it

    def json(self) -> Any:
        """Decode all of a small answer; None where it is not JSON."""
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
        self.requests = 0  # sent so far
        self.received = 0  # bytes
        self._most_bytes = most_bytes
        self._clock = clock or Clock()
        self._in_flight = threading.Lock()
        # trust_env: a proxy named in the environment is for the Internet, not for the scheduler.
        # One connection per request: after a restart of the server none is stale.
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
        """Send one request and return the answer, whatever its status."""
        body = scratch_file()
        try:
            with self._in_flight, self._convert_errors(path):
                self._check_socket()
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
    def _convert_errors(self, path: str) -> Iterator[None]:
        """Convert network errors to errors that say what to check."""
        try:
            yield
        except httpx.ConnectTimeout:
            raise UnreachableError(
                f"{self.address}: no connection within {_CONNECT:.0f} s: is the host right, is a "
                "firewall between?"
            ) from None
        except httpx.ConnectError as error:
            raise self._connect_error(error) from None
        except httpx.TimeoutException:
            raise SlowAnswerError(
                f"{self.address}: no answer to {path} in time: slurmrestd, slurmctld or slurmdbd is "
                "overloaded, or the request was too large"
            ) from None
        except httpx.TransportError as error:
            raise LostAnswerError(
                f"{self.address}: the connection ended before the answer to {path} did ({error}): slurmrestd "
                "may have died or been restarted; is it running, was it out of memory?"
            ) from None

    def _check_socket(self) -> None:
        """Check the socket beforehand, since the system's errors about sockets say little."""
        socket = self.address.socket
        if socket is None or os.access(socket, os.R_OK | os.W_OK):
            return
        try:
            os.stat(socket)  # noqa: PTH116 - Path cannot distinguish a missing file from an invisible one
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

    def _connect_error(self, error: httpx.ConnectError) -> SchedulerError:
        cause = _system_error(error)
        if isinstance(cause, ssl.SSLError):
            why = getattr(cause, "verify_message", None) or cause.reason or str(cause)
            return NoAccessError(
                f"{self.address}: no trusted TLS connection: {why}. Name the site's certificates by "
                "slurm_ca_file; if the server does not use TLS, the address begins with http://"
            )
        code = cause.errno if cause is not None else None
        if code == errno.ECONNREFUSED:
            return UnreachableError(f"{self.address}: nothing listens there: is slurmrestd running?")
        return UnreachableError(f"{self.address}: cannot be reached: {error}; is the address right?")

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


def _trusted(ca_file: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(
            f"slurm_ca_file: {ca_file}: holds no certificates that can be read: {error}"
        ) from None


def _system_error(error: BaseException) -> OSError | None:
    """Find the system's error, which lies below those of two libraries."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__cause__ or cause.__context__
    return cause
