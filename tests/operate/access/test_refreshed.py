"""A value of another server: one thread reads it, and a server that is slow holds up nobody for long."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from forewarn.operate.access.refreshed import KeySourceError, Refreshed
from forewarn.sources.slurm.clock import Clock


class SlowServer:
    """Counts its readers, and lets each wait until `answers` is set."""

    def __init__(self) -> None:
        self.answers, self.asked = threading.Event(), threading.Event()
        self.reads = self.value = 0
        self.fails = False

    def read(self) -> int:
        self.reads += 1
        self.asked.set()
        self.answers.wait(20)
        if self.fails:
            raise KeySourceError("away")
        return self.value


def test_others_use_the_former_value_while_one_reads() -> None:
    at, server = [0.0], SlowServer()
    value = Refreshed(server.read, "https://keys", clock=Clock(monotonic=lambda: at[0]), wait=0.2)
    server.answers.set()
    assert value.get(60) == 0
    server.answers.clear()
    server.asked.clear()
    at[0], server.value = 100, 1
    with ThreadPoolExecutor(1) as pool:
        reader = pool.submit(value.get, 60)
        assert server.asked.wait(5)
        begun = time.monotonic()
        assert value.get(60) == 0
        assert time.monotonic() - begun < 0.1
        assert value.get(60, waits=True) == 0  # it waits for the new one, but not for long
        assert 0.2 <= time.monotonic() - begun < 2
        server.answers.set()
        assert reader.result() == 1
    assert (value.get(60), server.reads) == (1, 2)


def test_all_wait_for_the_first_value_and_one_reads_it() -> None:
    server = SlowServer()
    value = Refreshed(server.read, "https://keys", wait=10)
    with ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(value.get, 60) for _ in range(8)]
        assert server.asked.wait(5)
        server.answers.set()
        assert [one.result() for one in waiting] == [0] * 8
    assert server.reads == 1


def test_without_any_value_the_wait_ends_in_an_error() -> None:
    server = SlowServer()
    value = Refreshed(server.read, "https://keys", wait=0.1)
    with ThreadPoolExecutor(1) as pool:
        reader = pool.submit(value.get, 60)
        assert server.asked.wait(5)
        with pytest.raises(KeySourceError, match="https://keys: does not answer yet"):
            value.get(60)
        server.answers.set()
        assert reader.result() == 0


def test_a_server_that_fails() -> None:
    at, server = [0.0], SlowServer()
    server.answers.set()
    value = Refreshed(server.read, "https://keys", clock=Clock(monotonic=lambda: at[0]))
    server.fails = True
    for _ in range(5):
        with pytest.raises(KeySourceError, match="away"):
            value.get(60)
    assert server.reads == 1  # a server that does not answer is not asked by each
    server.fails = False
    at[0] = 6
    assert value.get(60) == 0
    at[0], server.fails, server.value = 100, True, 1
    assert [value.get(60), value.get(60), server.reads] == [
        0,
        0,
        3,
    ]  # the former counts, and is not asked again
    at[0], server.fails = 200, False
    assert value.get(60) == 1
