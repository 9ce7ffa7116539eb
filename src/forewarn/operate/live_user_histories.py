"""All users' earlier jobs in memory, kept up with what changes."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import polars as pl

from forewarn.assess.queue_waits import COLUMNS as WAIT_COLUMNS
from forewarn.assess.queue_waits import DAYS, median_waits
from forewarn.assess.user_history import COLUMNS, PAST_DAYS, UserHistory, past_schema, read_past
from forewarn.job.columns import KEYS
from forewarn.job.record import Job
from forewarn.store.base import ClusterFacts, Store

DAY = 86400
_KEY = list(KEYS["job"])


class LiveUserHistories:
    """The jobs of the last half year: one past for all users, and newer ones for those whose jobs changed.

    What is asked of it is asked by many threads; `changed` makes another one, which shares what is the same.
    """

    def __init__(self, base: UserHistory, read_at: int, newer: dict[str, UserHistory] | None = None) -> None:
        self.base, self.read_at = base, read_at
        self._newer = newer or {}
        self._started_in: dict[tuple[Any, ...], pl.DataFrame] = {}

    @classmethod
    def read(cls, store: Store, cluster: str, at: int, facts: ClusterFacts) -> LiveUserHistories:
        """From what the store has."""
        return cls(read_past(store, cluster, at, facts), at)

    def prepare(self, users: Collection[str | None]) -> None:
        """Nothing is to be read: all of it is here."""

    def past_of(self, user: str | None) -> UserHistory:
        """A past that holds this user's jobs, if there are any."""
        return self._newer.get(user or "", self.base)

    def waits(self, job: Job, at: int, limit: float, smaller: float) -> tuple[float, float] | None:
        """Median waits of requests like a job's: of those that had started when all this was read."""
        return median_waits(self._started(job.partition), job, at, limit, smaller)

    def _started(self, partition: str | None) -> pl.DataFrame:
        if not self._started_in:
            recent = (pl.col("submit") >= self.read_at - DAYS * DAY) & pl.col("start").is_not_null()
            started = self.base.jobs.filter(recent).select(WAIT_COLUMNS)
            self._started_in.update(started.partition_by("partition", as_dict=True))
        return self._started_in.get((partition,), self.base.jobs.clear())

    @property
    def newer_jobs(self) -> int:
        """How many jobs are held a second time, since their users' jobs changed."""
        return sum(past.jobs.height for past in {id(p): p for p in self._newer.values()}.values())

    def changed(self, jobs: pl.DataFrame) -> LiveUserHistories:
        """The same with some jobs as they are now."""
        jobs = jobs.select(COLUMNS).filter(pl.col("user").is_not_null())
        if jobs.is_empty():
            return self
        users = jobs["user"].unique().to_list()
        before = pl.concat(
            [pl.DataFrame(schema=past_schema()), *(self.past_of(user).of(user) for user in users)]
        )
        whole = pl.concat([before.join(jobs, on=_KEY, how="anti"), jobs])
        past = UserHistory(whole, self.base.facts)
        made = LiveUserHistories(self.base, self.read_at, self._newer | dict.fromkeys(users, past))
        made._started_in = self._started_in
        return made

    def is_worn(self, at: int) -> bool:
        """Whether to read it anew: too much is held twice, or its oldest days should be forgotten."""
        too_many = self.newer_jobs > max(20_000, self.base.jobs.height // 2)
        return too_many or at - self.read_at > max(DAY, PAST_DAYS * DAY // 100)
