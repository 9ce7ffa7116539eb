"""Load on a server from one process: some connections, each with one request at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from random import Random


@dataclass(frozen=True, slots=True)
class Target:
    """A server's process, its port, and the path to post to."""

    pid: int
    port: int
    path: str

    def cpu_seconds(self) -> float:
        """Return the processor time that the process has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / 100

    def resident(self) -> float:
        """Return the memory of the process in MiB."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * 4096 / 2**20


@dataclass(slots=True)
class Load:
    """What a load measured: seconds of each answer, and of the processor for one."""

    seconds: float = 0.0
    cpu: float = 0.0
    latencies: list[float] = field(default_factory=list)
    errors: list[bytes] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Answers a second."""
        return len(self.latencies) / self.seconds

    @property
    def cpu_per_answer(self) -> float:
        """Processor seconds of the server for one answer."""
        return self.cpu / max(len(self.latencies), 1)

    def quantile(self, level: float) -> float:
        """Return a quantile of the latency in seconds."""
        ordered = sorted(self.latencies)
        return ordered[min(int(level * len(ordered)), len(ordered) - 1)]


def request(path: str, body: bytes = b"", method: str = "POST") -> bytes:
    """Write a request as bytes, so that the client costs little."""
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def put_load(target: Target, bodies: list[bytes], connections: int, seconds: float) -> Load:
    """Post different bodies over some connections, each in its own order."""
    random, requests = Random(1), [request(target.path, body) for body in bodies]
    load, cpu = Load(), target.cpu_seconds()
    begun = time.perf_counter()
    orders = [cycle(random.sample(requests, len(requests))) for _ in range(connections)]
    await asyncio.gather(*(ask_in_turn(target.port, order, begun + seconds, load) for order in orders))
    load.seconds, load.cpu = time.perf_counter() - begun, target.cpu_seconds() - cpu
    return load


async def ask_in_turn(
    port: int, requests: Iterator[bytes], until: float, load: Load, pause: float = 0.0
) -> None:
    """Send requests over one connection, each after the answer to the one before."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while (begun := time.perf_counter()) < until:
        writer.write(next(requests))
        head = await reader.readuntil(b"\r\n\r\n")
        body = await reader.readexactly(_length(head))
        load.latencies.append(time.perf_counter() - begun)
        if not head.startswith(b"HTTP/1.1 200"):
            load.errors.append(head.split(b"\r\n")[0] + b" " + body[:300])
        if pause:
            await asyncio.sleep(pause)
    writer.close()


def _length(head: bytes) -> int:
    _, _, rest = head.lower().partition(b"content-length:")
    return int(rest.partition(b"\r\n")[0])


async def read_stream(port: int, path: str, until: float) -> int:
    """Read a stream until a moment; return its bytes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request(path, method="GET"))
    size = 0
    while (left := until - time.perf_counter()) > 0:
        try:
            part = await asyncio.wait_for(reader.read(65536), left)
        except TimeoutError:
            break
        if not part:
            raise AssertionError(f"{path} ended")
        size += len(part)
    writer.close()
    return size
