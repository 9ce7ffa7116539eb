"""The datagram socket: notices are passed on, anything else is counted, nothing stops it."""

from __future__ import annotations

import json
import socket
import stat
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from forewarn.errors import BadFieldsError, UsageError
from forewarn.operate.events.hook_notice import MOST_BYTES_OF_NOTICE, HookEvent, HookNotice
from forewarn.serve.rest.datagram import MOST_A_SECOND, DatagramResult, NoticeReceiver, receiving_notices

GOOD: dict[str, Any] = {"version": 1, "cluster": "alps", "job_id": "12_3", "event": "started"}


class Received:
    """What came through, and what was counted."""

    def __init__(self) -> None:
        self.notices: list[tuple[str | None, str]] = []
        self.results: Counter[str] = Counter()
        self.changed = threading.Condition()

    def notice(self, cluster: str | None, job_id: str) -> bool:
        self.notices.append((cluster, job_id))
        return True

    def count_datagram(self, result: DatagramResult) -> None:
        with self.changed:
            self.results[result] += 1
            self.changed.notify_all()

    def wait(self, number: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: self.results.total() >= number, 10), self.results


@contextmanager
def receiving(path: Path, received: Received, mode: str = "0660") -> Iterator[socket.socket]:
    with (
        receiving_notices(path, mode, received.notice, received),
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender,
    ):
        sender.connect(str(path))
        yield sender


def test_notices_are_passed_on_and_garbage_is_counted(tmp_path: Path) -> None:
    received = Received()
    garbage = [b"", b"\xff\xfe", b"[]", b"{}", b"[" * 4000, b'{"version":1,"job_id":7,"event":"ended"}']
    with receiving(tmp_path / "s", received) as sender:
        for datagram in [*garbage, json.dumps(GOOD).encode()]:
            sender.send(datagram)
        sender.send(b"x" * (MOST_BYTES_OF_NOTICE + 1))
        sender.send(json.dumps(GOOD | {"cluster": None, "job_id": "9"}).encode())
        received.wait(len(garbage) + 3)
    assert received.notices == [("alps", "12_3"), (None, "9")]
    assert received.results == {"malformed": len(garbage), "accepted": 2, "too_large": 1}
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"version": None},
        {"job_id": "1; rm"},
        {"job_id": "../1"},
        {"job_id": "1" * 50},
        {"job_id": ["1"]},
        {"cluster": "a b"},
        {"cluster": "x" * 65},
        {"cluster": 5},
        {"event": "exploded"},
        {"event": ["ended"]},
    ],
)
def test_a_wrong_notice_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(BadFieldsError, match="the notice has 1 wrong field"):
        HookNotice.parse(json.dumps(GOOD | change).encode())


def test_a_good_notice_is_read() -> None:
    found = HookNotice.parse(json.dumps(GOOD).encode())
    assert found == HookNotice(cluster="alps", job_id="12_3", event=HookEvent.STARTED)


def test_an_error_behind_it_does_not_end_it(tmp_path: Path) -> None:
    class Failing(Received):
        def notice(self, cluster: str | None, job_id: str) -> bool:
            raise OSError(cluster, job_id)

    received = Failing()
    with receiving(tmp_path / "s", received) as sender:
        for _ in range(2):
            sender.send(json.dumps(GOOD).encode())
        received.wait(2)
    assert received.results == {"failed": 2}


def test_a_notice_to_a_process_that_does_not_collect_is_counted_so(tmp_path: Path) -> None:
    class Following(Received):
        def notice(self, cluster: str | None, job_id: str) -> bool:
            return False

    received = Following()
    with receiving(tmp_path / "s", received) as sender:
        sender.send(json.dumps(GOOD).encode())
        received.wait(1)
    assert received.results == {"not_collecting": 1}


def test_more_than_so_many_a_second_are_left_out() -> None:
    received, now = Received(), 7.5
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ours, theirs:
        ours.setblocking(False)
        receiver = NoticeReceiver(ours, received.notice, received, clock=lambda: now)
        for _ in range(MOST_A_SECOND + 10):
            theirs.send(json.dumps(GOOD).encode())
            receiver.receive()
        assert received.results == {"accepted": MOST_A_SECOND, "too_many": 10}
        now = 8.0
        theirs.send(json.dumps(GOOD).encode())
        receiver.receive()
        receiver.receive()  # nothing there: it does not wait
    assert received.results["accepted"] == MOST_A_SECOND + 1


@pytest.mark.parametrize("mode", ["0600", "0660", "0666"])
def test_the_socket_has_the_configured_permissions(tmp_path: Path, mode: str) -> None:
    with receiving(tmp_path / "s", Received(), mode):
        assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == int(mode, 8)


def test_a_socket_that_a_killed_service_left_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as left:
        left.bind(str(path))
    assert path.is_socket()
    received = Received()
    with receiving(path, received) as sender:
        sender.send(json.dumps(GOOD).encode())
        received.wait(1)
        with pytest.raises(UsageError, match="another process listens"), receiving(path, Received()):
            pass
        sender.send(json.dumps(GOOD).encode())
        received.wait(2)


@pytest.mark.parametrize("link", [True, False])
def test_what_is_no_socket_is_left_alone(tmp_path: Path, link: bool) -> None:
    target, path = tmp_path / "precious", tmp_path / "s"
    target.write_text("keep")
    if link:
        path.symlink_to(target)
    else:
        path.write_text("keep")
    with pytest.raises(UsageError, match="is not a socket"), receiving(path, Received()):
        pass
    assert path.read_text() == target.read_text() == "keep"


def test_a_sender_never_waits_long(tmp_path: Path) -> None:
    """A hook with a socket that does not block gets an error at worst, when the buffer is full."""
    received = Received()
    with receiving(tmp_path / "s", received) as sender:
        sender.setblocking(False)
        begin = time.monotonic()
        sent = 0
        for _ in range(3000):
            try:
                sender.send(json.dumps(GOOD).encode())
                sent += 1
            except BlockingIOError:
                pass
        assert time.monotonic() - begin < 5
        received.wait(sent)
    assert received.results.total() == sent
    assert list(tmp_path.iterdir()) == []
