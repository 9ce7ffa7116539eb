"""Threads in which requests compute: few in all, and fewer for one caller, so that none keeps the others out.

A place is given back when the work ends, not when its request was given up: work that goes on after a
time-out still counts.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from functools import partial
from threading import Lock
from typing import NamedTuple, ParamSpec, TypeVar

from forewarn.errors import OverloadedError, RateLimitError

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
THREADS = 16
MOST_OF_USER, MOST_OF_SITE = 8, 64  # requests of one user, and of one program or operator of the site
MOST_WAITING = 256  # of all callers


class Caller(NamedTuple):
    """Who is calling, and how many requests of theirs may compute or wait at the same time."""

    name: str = ""
    most: int = MOST_OF_USER


NOBODY = Caller()
current_caller: ContextVar[Caller] = ContextVar("current_caller", default=NOBODY)


class WorkPool:
    """The threads of one process."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(THREADS, thread_name_prefix="request")
        self._lock = Lock()
        self._of_caller: Counter[str] = Counter()

    async def run(self, work: Callable[[], Result]) -> Result:
        """Work in a thread for the current caller; raise `RateLimitError` where there is no place."""
        caller = current_caller.get()
        self._enter(caller)
        context = copy_context()

        def work_and_leave() -> Result:
            try:
                return context.run(work)
            finally:
                self._leave(caller)

        try:
            future = self._executor.submit(work_and_leave)
        except BaseException:
            self._leave(caller)
            raise
        # A request that is given up does not cancel the work: its place is given back by the thread.
        return await asyncio.shield(asyncio.wrap_future(future))

    def _enter(self, caller: Caller) -> None:
        with self._lock:
            if self._of_caller[caller.name] >= caller.most:
                raise RateLimitError(f"{caller.most} requests of yours are being answered: wait for one", 1)
            if self._of_caller.total() >= MOST_WAITING:
                raise OverloadedError("the service has too much to do now: try again", 5)
            self._of_caller[caller.name] += 1

    def _leave(self, caller: Caller) -> None:
        with self._lock:
            self._of_caller[caller.name] -= 1
            if not self._of_caller[caller.name]:
                del self._of_caller[caller.name]


_POOL = WorkPool()


async def in_thread(
    work: Callable[Parameters, Result], *args: Parameters.args, **kwargs: Parameters.kwargs
) -> Result:
    """Work in one of the process's threads."""
    return await _POOL.run(partial(work, *args, **kwargs))
