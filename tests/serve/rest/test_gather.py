"""Concurrent single requests share a call of the model, each gets its own answer, and nobody alone waits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from typing import Any

import pytest

from forewarn.serve.rest.gather import Gatherer

CALLERS = 64


class Model:
    """What answers the questions, and how many came with each call."""

    def __init__(self) -> None:
        self.calls: list[int] = []
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def answer_all(self, questions: Sequence[int]) -> Sequence[int]:
        self.calls.append(len(questions))
        assert self.may_go_on.wait(30)
        if 13 in questions:
            raise ValueError("13")
        return [2 * question for question in questions]


def run(asking: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(asking, 30))


def test_those_who_ask_together_share_one_call() -> None:
    async def ask() -> None:
        model = Model()
        gatherer = Gatherer(model.answer_all)
        answers = await asyncio.gather(*map(gatherer.ask, range(14, 14 + CALLERS)))
        assert answers == [2 * number for number in range(14, 14 + CALLERS)]
        assert model.calls == [CALLERS]
        gatherer.close()

    run(ask())


def test_those_who_come_during_a_call_share_the_next_one() -> None:
    async def ask() -> None:
        model = Model()
        gatherer = Gatherer(model.answer_all, most=40)
        model.may_go_on.clear()
        first = asyncio.create_task(gatherer.ask(1))
        while not model.calls:
            await asyncio.sleep(0.001)
        others = [asyncio.create_task(gatherer.ask(number)) for number in range(100, 100 + CALLERS)]
        await asyncio.sleep(0.01)
        assert (model.calls, first.done()) == ([1], False)
        model.may_go_on.set()
        assert (await first, await asyncio.gather(*others)) == (2, [2 * n for n in range(100, 100 + CALLERS)])
        assert model.calls == [1, 40, 24]
        gatherer.close()

    run(ask())


def test_a_question_without_an_answer_costs_only_its_own_caller() -> None:
    async def ask() -> None:
        model = Model()
        gatherer = Gatherer(model.answer_all)
        answers = await asyncio.gather(*map(gatherer.ask, range(16)), return_exceptions=True)
        assert [str(one) for one in answers] == ["13" if n == 13 else str(2 * n) for n in range(16)]
        assert len(model.calls) == 1 + 2 * 4  # halves down to the one question
        gatherer.close()

    run(ask())


@pytest.mark.slow
def test_who_asks_alone_does_not_wait_for_others() -> None:
    wait = 1.5  # seconds, so long that a wait cannot be taken for a busy machine

    async def ask() -> None:
        gatherer = Gatherer(Model().answer_all, wait=wait)
        loop = asyncio.get_running_loop()

        async def seconds_alone() -> float:
            begun = loop.time()
            assert await gatherer.ask(4) == 8
            return loop.time() - begun

        assert await seconds_alone() < wait / 2
        await asyncio.gather(gatherer.ask(1), gatherer.ask(2))
        # Two came together, so another one may be on its way: once, and no longer than promised.
        assert wait * 0.9 < await seconds_alone() < 2 * wait
        assert await seconds_alone() < wait / 2
        await asyncio.gather(gatherer.ask(1), gatherer.ask(2))
        begun = loop.time()
        await asyncio.gather(gatherer.ask(1), gatherer.ask(2))  # as many as before: nobody is missing
        assert loop.time() - begun < wait / 2
        gatherer.close()

    run(ask())
