"""The unix datagram socket: notices from Slurm's hooks, which must never wait.

A hook sends one datagram and goes on. Nothing is answered. What is too large, comes too fast or is not a
notice is counted and left out (`forewarn_datagrams_total`).
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic
from typing import Literal, Protocol

from forewarn.errors import BadFieldsError
from forewarn.operate.events.hook_notice import MOST_BYTES_OF_NOTICE, HookNotice
from forewarn.serve.rest.unix_socket import unix_socket

log = logging.getLogger(__name__)
MOST_A_SECOND = 1000
RECEIVE_BUFFER = 1 << 20  # bytes in the kernel: a burst of some thousand notices
DatagramResult = Literal["accepted", "malformed", "too_large", "too_many", "failed", "not_collecting"]
# Looks at a job soon; False: this process does not collect, and nothing happens.
TakeNotice = Callable[[str | None, str], bool]


class DatagramCounter(Protocol):
    """Counts what became of datagrams."""

    def count_datagram(self, result: DatagramResult) -> None:
        """Count one."""


@contextlib.contextmanager
def receiving_notices(path: Path, mode: str, notice: TakeNotice, counter: DatagramCounter) -> Iterator[None]:
    """Receive notices in a thread, and call `notice` with the cluster and the job id of each."""
    with unix_socket(path, socket.SOCK_DGRAM, mode) as opened, contextlib.ExitStack() as stack:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
        opened.setblocking(False)
        wake, waker = os.pipe()
        stack.callback(os.close, wake)
        receiver = NoticeReceiver(opened, notice, counter)
        thread = threading.Thread(target=receiver.run, args=(wake,), name="notices", daemon=True)
        thread.start()
        try:
            yield
        finally:
            os.close(waker)  # the other end becomes readable
            thread.join()


class NoticeReceiver:
    """Reads datagrams and passes the notices on, at most so many a second."""

    def __init__(
        self,
        opened: socket.socket,
        notice: TakeNotice,
        counter: DatagramCounter,
        *,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._socket, self._notice, self._counter, self._clock = opened, notice, counter, clock
        self._second, self._in_second = 0, 0

    def run(self, wake: int) -> None:
        """Receive until the pipe `wake` is closed at its other end."""
        while True:
            readable, _, _ = select.select([self._socket.fileno(), wake], [], [])
            if wake in readable:
                return
            self.receive()

    def receive(self) -> None:
        """Take one datagram; whatever it is, the next one is taken too."""
        try:
            datagram = self._socket.recv(MOST_BYTES_OF_NOTICE + 1)
        except BlockingIOError:
            return
        except OSError as error:
            log.warning("notices: %s", error)
            return
        self._counter.count_datagram(self._take(datagram))

    def _take(self, datagram: bytes) -> DatagramResult:
        second = int(self._clock())
        self._in_second = self._in_second + 1 if second == self._second else 1
        self._second = second
        if self._in_second > MOST_A_SECOND:
            return "too_many"
        if len(datagram) > MOST_BYTES_OF_NOTICE:
            return "too_large"
        try:
            found = HookNotice.parse(datagram)
        except BadFieldsError as error:
            log.debug("notices: %s", error)
            return "malformed"
        try:
            is_taken = self._notice(found.cluster, found.job_id)
        except Exception:  # the thread must take the next one
            log.exception("notices: a notice could not be passed on")
            return "failed"
        return "accepted" if is_taken else "not_collecting"
