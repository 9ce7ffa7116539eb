"""Long reads: one at a time; who waits too long is told so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any

import polars as pl
import pytest

from forewarn.config import Config
from forewarn.errors import StoreBusyError
from forewarn.operate import long_reads, trends
from forewarn.operate.job_rows import JobRows
from forewarn.operate.trend_counts import count_trend
from forewarn.operate.workspace import Workspace
from forewarn.store.base import ClusterFacts

LONG = {"since": 946_684_800}


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    with Workspace(Config(home=tmp_path)) as opened:
        with opened.writing().writing() as writer:
            writer.describe_cluster("alps", ClusterFacts())
        yield opened


class SlowRead:
    """Takes the place of a function, and holds its first caller until `end`."""

    def __init__(self, real: Any) -> None:
        self.real, self.calls = real, 0
        self.begun, self.end = Event(), Event()

    def __call__(self, *args: Any) -> Any:
        self.calls += 1
        self.begun.set()
        assert self.end.wait(10)
        return self.real(*args)


def test_one_list_of_old_jobs_is_read_at_a_time(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = workspace.job_list()
    jobs.follow()
    slow = SlowRead(JobRows.read)
    monkeypatch.setattr(JobRows, "read", slow)
    monkeypatch.setattr(long_reads, "WAIT", 0.01)
    first = Thread(target=lambda: jobs.page(since=LONG["since"]))
    first.start()
    assert slow.begun.wait(10)
    with pytest.raises(StoreBusyError, match="shorter time"):
        jobs.page(since=LONG["since"])
    assert jobs.page().total == 0, "recent jobs are in memory"
    slow.end.set()
    first.join()
    assert slow.calls == 1
    assert jobs.page(since=LONG["since"]).total == 0


def test_one_trend_is_counted_at_a_time_and_for_all_who_ask_the_same(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, results = workspace.trends(), []
    slow = SlowRead(count_trend)
    monkeypatch.setattr(trends, "count_trend", slow)

    def ask() -> None:
        results.append(asked.trend(since=LONG["since"], until=1_000_000_000))

    threads = [Thread(target=ask) for _ in range(3)]
    threads[0].start()
    assert slow.begun.wait(10)
    with monkeypatch.context() as patch:
        patch.setattr(long_reads, "WAIT", 0.01)
        with pytest.raises(StoreBusyError):
            asked.trend(by="user", since=LONG["since"])
    for thread in threads[1:]:
        thread.start()
    slow.end.set()
    for thread in threads:
        thread.join()
    assert (len(results), slow.calls) == (3, 1)
    assert isinstance(next(iter(asked._counts.values()))[1], pl.DataFrame)
