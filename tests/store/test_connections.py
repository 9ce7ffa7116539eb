"""Connections are lent to one at a time, few are kept, and none is left open."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from forewarn.errors import StoreError
from forewarn.store.connections import MOST_IDLE, Connections


class Counted(sqlite3.Connection):
    """Counts how many are open."""

    open = 0
    lock = threading.Lock()

    def __init__(self, *arguments: object, **named: object) -> None:
        super().__init__(*arguments, **named)  # type: ignore[arg-type]
        with self.lock:
            Counted.open += 1

    def close(self) -> None:
        super().close()
        with self.lock:
            Counted.open -= 1


@pytest.fixture
def ended() -> list[str]:
    return []


@pytest.fixture
def connections(tmp_path: Path, ended: list[str]) -> Iterator[Connections]:
    Counted.open = 0

    def opened() -> sqlite3.Connection:
        return sqlite3.connect(tmp_path / "x.db", check_same_thread=False, factory=Counted)

    yield Connections(tmp_path / "x.db", 1, opened, lambda: ended.append(f"{Counted.open} open"))
    assert Counted.open == 0


def test_few_are_kept_of_many(connections: Connections) -> None:
    many = 3 * MOST_IDLE
    together = threading.Barrier(many)

    def borrow(_: int) -> int:
        with connections.borrow() as connection:
            together.wait(timeout=60)
            return id(connection)

    with ThreadPoolExecutor(many) as pool:
        assert len(set(pool.map(borrow, range(many)))) == many, "nobody shares one"
    assert Counted.open == MOST_IDLE
    with connections.borrow():
        assert Counted.open == MOST_IDLE, "an idle one is taken"
    connections.close()


def test_what_is_borrowed_is_closed_when_it_is_given_back(connections: Connections, ended: list[str]) -> None:
    with connections.borrow() as one:
        with connections.borrow():
            pass
        connections.close()
        assert one.execute("SELECT 1").fetchone() == (1,)
        assert (Counted.open, ended) == (1, [])
        with pytest.raises(StoreError, match="closed"), connections.borrow():
            pass
    assert ended == ["0 open"], "told after the last one is closed"
    connections.close()


def test_closing_among_many_borrowers(connections: Connections, ended: list[str]) -> None:
    begun = threading.Semaphore(0)

    def borrow(_: int) -> None:
        begun.release()
        try:
            while True:
                with connections.borrow() as connection:
                    connection.execute("BEGIN")
        except StoreError:
            pass

    with ThreadPoolExecutor(8) as pool:
        working = [pool.submit(borrow, n) for n in range(8)]
        for _ in working:
            begun.acquire()
        other = threading.Thread(target=connections.close)
        other.start()
        connections.close()
        other.join()
        for work in working:
            work.result(timeout=60)
    assert ended
    assert ended[-1] == "0 open"
