"""A queue that is full is answered at once: 503 and when to ask again, and nobody else's answer is lost."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest

from forewarn.errors import OverloadedError
from forewarn.serve.rest.gather import MOST_WAITING, Gatherer
from forewarn.serve.rest.problems import problem_of
from forewarn.serve.rest.work import MOST_WAITING as MOST_IN_THREADS
from forewarn.serve.rest.work import Caller, WorkPool, current_caller


def test_a_full_queue_of_single_assessments() -> None:
    release = threading.Event()

    def double(questions: Sequence[int]) -> Sequence[int]:
        release.wait(30)
        return [2 * question for question in questions]

    async def ask() -> None:
        gatherer = Gatherer(double, most=MOST_WAITING)
        first = asyncio.create_task(gatherer.ask(0))
        await asyncio.sleep(0.05)  # it is being answered
        waiting = [asyncio.create_task(gatherer.ask(number)) for number in range(1, MOST_WAITING + 1)]
        await asyncio.sleep(0)
        with pytest.raises(OverloadedError) as refused:
            await gatherer.ask(-1)
        assert _answered(refused.value) == (503, "overloaded", "1")
        release.set()
        assert await first == 0
        assert await asyncio.gather(*waiting) == [2 * number for number in range(1, MOST_WAITING + 1)]
        assert await gatherer.ask(21) == 42
        gatherer.close()

    asyncio.run(ask())


def test_all_threads_are_taken() -> None:
    pool, release = WorkPool(), threading.Event()

    async def ask() -> None:
        waiting = []
        for number in range(MOST_IN_THREADS):
            current_caller.set(Caller(f"user{number}"))
            waiting.append(asyncio.create_task(pool.run(lambda: release.wait(30))))
        await asyncio.sleep(0.05)
        with pytest.raises(OverloadedError) as refused:
            await pool.run(lambda: None)
        assert _answered(refused.value) == (503, "overloaded", "5")
        release.set()
        await asyncio.gather(*waiting)

    asyncio.run(ask())


def _answered(error: Exception) -> tuple[int, str, str]:
    response = problem_of(error).response()
    return response.status_code, problem_of(error).code, response.headers["retry-after"]
