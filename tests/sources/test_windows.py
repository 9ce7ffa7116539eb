"""Tests of histories in windows: complete, no job twice, each window of a suitable size."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.errors import BadRow, LostAnswerError, SlowAnswerError
from forewarn.job.columns import complete
from forewarn.sources.base import Batch
from forewarn.sources.slurm.scheduler import HistoryPart
from forewarn.sources.slurm.windows import WindowAnswer, WindowLength, collect_windows
from tests.sources.fake_slurmrestd import FakeTime

Job = tuple[int, int, int | None]  # id, eligible (0: never), end


def batch(jobs: list[Job], bad: tuple[BadRow, ...] = ()) -> Batch:
    rows = {
        "cluster": ["c"] * len(jobs),
        "job_id": [str(job[0]) for job in jobs],
        "submit": [0] * len(jobs),
        "end": [job[2] for job in jobs],
    }
    schema = {"cluster": pl.String, "job_id": pl.String, "submit": pl.Int64, "end": pl.Int64}
    return Batch("job", complete(pl.DataFrame(rows, schema=schema)), bad)


class Accounting:
    """Accounting that answers as slurmdbd: by eligible time and end, or for cancelled jobs by their end."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.jobs = jobs
        self.windows: list[tuple[int, int]] = []

    def ask(self, begin: int, end: int) -> WindowAnswer:
        self.windows.append((begin, end))
        overlapping = [j for j in self.jobs if 0 < j[1] < end and (j[2] is None or j[2] >= begin)]
        cancelled = [j for j in self.jobs if j[2] is not None and begin <= j[2] <= end and j[0] % 3 == 0]
        return WindowAnswer([batch(overlapping)], [batch(cancelled)])


def ids(pieces: list[HistoryPart]) -> list[int]:
    return [int(i) for piece in pieces for i in piece.batch.frame["job_id"]]


jobs_of_time = st.lists(st.tuples(st.integers(1, 900), st.none() | st.integers(0, 500)), max_size=40)


@pytest.mark.slow
@given(jobs_of_time, st.integers(1, 300), st.integers(1, 20))
def test_each_job_once_whatever_the_windows(
    times: list[tuple[int, int | None]], seconds: int, rows: int
) -> None:
    jobs = [
        (n, eligible, None if ran is None else eligible + ran) for n, (eligible, ran) in enumerate(times, 1)
    ]
    accounting = Accounting(jobs)
    span = WindowLength(seconds=seconds, shortest=1, longest=400, rows=rows)
    pieces = list(collect_windows(accounting.ask, 100, 1000, span, FakeTime().clock))
    due = [n for n, eligible, end in jobs if eligible < 1000 and (end is None or end >= 100)]
    assert sorted(ids(pieces)) == due
    assert [piece.reached for piece in pieces] == sorted(piece.reached for piece in pieces)
    assert (pieces[-1].reached, pieces[-1].share) == (1000, 1.0)
    assert all(a[1] == b[0] for a, b in itertools.pairwise(accounting.windows))


def test_jobs_cancelled_before_they_were_eligible_are_not_lost() -> None:
    held, begun_later, usual = (3, 0, 150), (6, 900, 160), (9, 120, 170)
    pieces = list(
        collect_windows(
            Accounting([held, begun_later, usual]).ask, 100, 200, WindowLength(), FakeTime().clock
        )
    )
    assert sorted(ids(pieces)) == [3, 6, 9]


def test_what_ended_before_the_cursor_was_given() -> None:
    jobs = [(n, n * 10, n * 10 + 5) for n in range(1, 100)]
    pieces = list(
        collect_windows(
            Accounting(jobs).ask, 0, 1000, WindowLength(seconds=60, shortest=10, rows=5), FakeTime().clock
        )
    )
    given_so_far: set[int] = set()
    for piece in pieces:
        given_so_far.update(ids([piece]))
        assert {n for n, _, end in jobs if end is not None and end < piece.reached} <= given_so_far


def test_windows_shrink_where_there_is_much_and_grow_where_there_is_little() -> None:
    busy = [(n, 10_000 + n // 10, 10_000 + n // 10) for n in range(1, 10_000)]
    accounting = Accounting(busy)
    list(
        collect_windows(
            accounting.ask,
            0,
            20_000,
            WindowLength(seconds=100, shortest=5, longest=800, rows=200),
            FakeTime().clock,
        )
    )
    lengths = {begin: end - begin for begin, end in accounting.windows}
    assert max(lengths.values()) == 800
    assert min(length for begin, length in lengths.items() if 10_100 < begin < 10_900) <= 40


def test_a_busy_rate_is_remembered_in_quiet_times() -> None:
    span = WindowLength(seconds=100, shortest=10, longest=10_000, rows=100)
    span.learn(1000, 0, 1.0)
    for _ in range(10):
        span.learn(0, 0, 1.0)
    assert span.seconds == 40  # at 10 a second no more than four answers of a good size


def test_jobs_that_only_overlap_do_not_shrink_windows_for_ever() -> None:
    span = WindowLength(seconds=1000, rows=100)
    for _ in range(20):
        span.learn(10, 50_000, 1.0)
    assert span.seconds >= 1000


def test_a_slow_answer_makes_the_next_window_shorter() -> None:
    span = WindowLength(seconds=1000, slow=10.0)
    span.learn(10, 0, 20.0)
    assert span.seconds == 500


@pytest.mark.parametrize("error", [SlowAnswerError, LostAnswerError])
def test_too_much_is_asked_for_in_smaller_windows(error: type[Exception]) -> None:
    accounts = Accounting([(1, 5, 50), (2, 5, 950)])

    def ask(begin: int, end: int) -> WindowAnswer:
        if end - begin > 100:
            raise error("too much")
        return accounts.ask(begin, end)

    assert sorted(
        ids(list(collect_windows(ask, 0, 1000, WindowLength(seconds=1000, shortest=10), FakeTime().clock)))
    ) == [
        1,
        2,
    ]

    def never(begin: int, end: int) -> WindowAnswer:
        raise error("dead")

    with pytest.raises(error, match="dead"):
        list(collect_windows(never, 0, 1000, WindowLength(seconds=1000, shortest=10), FakeTime().clock))


def test_a_bad_row_is_reported_once_though_each_window_has_it() -> None:
    row = BadRow("jobs", 1, "submit", "missing", "{...}")
    pieces = list(
        collect_windows(
            lambda begin, end: WindowAnswer([batch([], (row,))], []),
            0,
            1000,
            WindowLength(seconds=100, shortest=100, longest=100),
            FakeTime().clock,
        )
    )
    assert len(pieces) == 10
    assert [bad for piece in pieces for bad in piece.batch.bad] == [row]


def test_no_time_no_pieces() -> None:
    assert list(collect_windows(Accounting([]).ask, 100, 100, WindowLength(), FakeTime().clock)) == []
