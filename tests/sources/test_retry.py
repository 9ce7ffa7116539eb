"""Tests of retries with pauses, and of the breaker."""

from __future__ import annotations

import pytest

from forewarn.errors import (
    LostAnswerError,
    PausedError,
    RefusedError,
    SchedulerError,
    TokenError,
    UnreachableError,
)
from forewarn.sources.slurm.retry import RetryPolicy
from tests.sources.fake_slurmrestd import FakeTime


class Failing:
    def __init__(self, times: int, error: SchedulerError) -> None:
        self.left, self.error, self.calls = times, error, 0

    def __call__(self) -> str:
        self.calls += 1
        if self.left:
            self.left -= 1
            raise self.error
        return "done"


def test_pauses_grow_and_are_cut_by_chance() -> None:
    time = FakeTime()
    retry = RetryPolicy(tries=6, first=1.0, longest=3.0, clock=time.clock)
    assert retry.attempt(Failing(5, UnreachableError("x"))) == "done"
    assert time.waits == [0.75, 1.5, 2.25, 2.25, 2.25]  # of chance 0.5: three quarters of 1, 2, 3, 3, 3


@pytest.mark.parametrize("error", [RefusedError("no"), TokenError("none")])
def test_what_does_not_pass_is_not_tried_again(error: SchedulerError) -> None:
    call = Failing(1, error)
    with pytest.raises(type(error)):
        RetryPolicy(clock=FakeTime().clock).attempt(call)
    assert call.calls == 1


def test_what_may_be_asked_once_only() -> None:
    call = Failing(1, LostAnswerError("x"))
    with pytest.raises(LostAnswerError):
        RetryPolicy(clock=FakeTime().clock).attempt(call, once=(LostAnswerError,))
    assert call.calls == 1


def test_the_breaker() -> None:
    """It opens after repeated failures, for longer each time; then one try decides."""
    time = FakeTime()
    retry = RetryPolicy(tries=2, failures=2, pause=30, longest_pause=50, clock=time.clock)
    call = Failing(99, UnreachableError("nobody there"))
    for _ in range(2):
        with pytest.raises(UnreachableError):
            retry.attempt(call)
    calls = call.calls
    with pytest.raises(PausedError, match=r"paused for 30 s after .*: nobody there") as paused:
        retry.attempt(call)
    assert (call.calls, round(paused.value.seconds)) == (calls, 30)
    time.now += 31
    with pytest.raises(UnreachableError):
        retry.attempt(call)
    assert call.calls == calls + 1
    with pytest.raises(PausedError, match="paused for 50 s"):
        retry.attempt(call)
    time.now += 51
    call.left = 0
    assert retry.attempt(call) == "done"
    call.left = 1
    assert retry.attempt(call) == "done"  # tried twice again
