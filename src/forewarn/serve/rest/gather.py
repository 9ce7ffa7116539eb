"""Gathering of concurrent single requests into one model call: many callers cost little more than one.

A call that finds nothing running begins at once. Those that arrive meanwhile wait for it, then for as many as
shared it, at most a few milliseconds, and share the next call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Generic, TypeVar

from forewarn.errors import OverloadedError

MOST_WAITING = 4096  # questions
Question = TypeVar("Question")
Answer = TypeVar("Answer")


class Gatherer(Generic[Question, Answer]):
    """A queue of questions that are answered together, in one thread.

    Parameters
    ----------
    answer_all
        Answers questions in order. If it raises, the halves are asked by themselves, and so on: one question
        that cannot be answered costs only its own caller.
    wait
        Seconds for which a call waits for others, if others came with the call before it.
    most
        Questions in one call.
    """

    def __init__(
        self,
        answer_all: Callable[[Sequence[Question]], Sequence[Answer]],
        *,
        wait: float = 0.0,
        most: int = 256,
        on_batch: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._answer_all, self._wait, self._most, self._on_batch = answer_all, wait, most, on_batch
        self._waiting: list[tuple[Question, asyncio.Future[Answer]]] = []
        self._is_running = False
        self._last_size = 1
        self._complete: asyncio.Event | None = None  # set when as many wait as shared the last call
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="gather")

    async def ask(self, question: Question) -> Answer:
        """Return the answer to a question, or raise its error."""
        if len(self._waiting) >= MOST_WAITING:
            raise OverloadedError("the service has too much to do now: try again", 1)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answer] = loop.create_future()
        self._waiting.append((question, future))
        if self._complete is not None and len(self._waiting) >= self._last_size:
            self._complete.set()
        if not self._is_running:
            self._is_running = True
            loop.create_task(self._run())  # noqa: RUF006 - it ends when the queue is empty
        return await future

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._waiting:
                await self._wait_for_others()
                batch, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
                self._last_size = len(batch)
                self._on_batch(len(batch))
                questions = [question for question, _ in batch]
                answers = await loop.run_in_executor(self._thread, self._answer_each, questions)
                for (_, future), answer in zip(batch, answers, strict=True):
                    if future.done():  # its caller has gone
                        continue
                    if isinstance(answer, Exception):
                        future.set_exception(answer)
                    else:
                        future.set_result(answer)
        finally:
            self._is_running = False

    async def _wait_for_others(self) -> None:
        """Wait where several came together the last time: others are on their way. Alone: no delay."""
        await asyncio.sleep(0)  # what has arrived is read first
        if self._wait and 1 < self._last_size > len(self._waiting):
            self._complete = asyncio.Event()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._complete.wait(), self._wait)
            self._complete = None

    def _answer_each(self, questions: Sequence[Question]) -> Sequence[Answer | Exception]:
        try:
            return self._answer_all(questions)
        except Exception as error:
            if len(questions) == 1:
                return [error]
            half = len(questions) // 2
            return [*self._answer_each(questions[:half]), *self._answer_each(questions[half:])]

    def close(self) -> None:
        """End the thread after its current call."""
        self._thread.shutdown()
