"""Requests compute in few threads, and one caller does not keep the others out."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from forewarn.errors import RateLimitError
from forewarn.serve.rest.work import MOST_OF_USER, Caller, WorkPool, current_caller


def test_one_caller_does_not_keep_the_others_out() -> None:
    pool, release = WorkPool(), threading.Event()

    async def ask() -> None:
        current_caller.set(Caller("ann"))
        waiting = [asyncio.create_task(pool.run(lambda: release.wait(10))) for _ in range(MOST_OF_USER)]
        await asyncio.sleep(0.05)
        with pytest.raises(RateLimitError, match="8 requests of yours"):
            await pool.run(lambda: None)
        current_caller.set(Caller("ben"))
        assert await pool.run(lambda: 7) == 7
        release.set()
        assert await asyncio.gather(*waiting) == [True] * MOST_OF_USER
        current_caller.set(Caller("ann"))
        assert await pool.run(lambda: 8) == 8

    asyncio.run(ask())


def test_work_that_was_given_up_still_counts() -> None:
    pool, release = WorkPool(), threading.Event()

    async def ask() -> None:
        current_caller.set(Caller("ann", most=1))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await pool.run(lambda: release.wait(10))
        with pytest.raises(RateLimitError):
            await pool.run(lambda: None)
        release.set()
        ends = time.monotonic() + 5
        while time.monotonic() < ends:
            try:
                assert await pool.run(lambda: 9) == 9
                return
            except RateLimitError:
                await asyncio.sleep(0.01)
        pytest.fail("the place was not given back")

    asyncio.run(ask())
