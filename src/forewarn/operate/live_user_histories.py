"""The earlier jobs of all users in memory, updated with what changes."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import polars as pl

from forewarn.assess.queue_waits import COLUMNS as WAIT_COLUMNS
from forewarn.assess.queue_waits import DAYS, median_waits
from forewarn.assess.user_history import COLUMNS, HISTORY_DAYS, UserHistory, history_schema, read_history
from forewarn.job.columns import KEYS
from forewarn.job.record import Job
from forewarn.store.base import ClusterFacts, Store

DAY = 86400
_KEY = list(KEYS["job"])


class LiveUserHistories:
    """The jobs of the last half year: one history of all users, and newer ones of users whose jobs changed.

    It never changes, so many threads may use it; `updated` returns another one that shares what is the same.
    """

    def __init__(self, base: UserHistory, read_at: int, newer: dict[str, UserHistory] | None = None) -> None:
        self.base, self.read_at = base, read_at
        self._newer = newer or {}
        self._started_in: dict[tuple[Any, ...], pl.DataFrame] = {}

    @classmethod
    def read(cls, store: Store, cluster: str, at: int, facts: ClusterFacts) -> LiveUserHistories:
        """Read the histories of all users from the store."""
        return cls(read_history(store, cluster, at, facts), at)

    def prepare(self, users: Collection[str | None]) -> None:
        """Do nothing: the histories of all users are in memory."""

    def history_of(self, user: str | None) -> UserHistory:
        """Return a history that contains this user's jobs, if there are any."""
        return self._newer.get(user or "", self.base)

    def waits(self, job: Job, at: int, limit: float, smaller: float) -> tuple[float, float] | None:
        """Compute median waits in the queue (`median_waits`) from jobs started before the last full read."""
        return median_waits(self._started(job.partition), job, at, limit, smaller)

    def _started(self, partition: str | None) -> pl.DataFrame:
        if not self._started_in:
            recent = (pl.col("submit") >= self.read_at - DAYS * DAY) & pl.col("start").is_not_null()
            started = self.base.jobs.filter(recent).select(WAIT_COLUMNS)
            self._started_in.update(started.partition_by("partition", as_dict=True))
        return self._started_in.get((partition,), self.base.jobs.clear())

    @property
    def newer_jobs(self) -> int:
        """The number of jobs in newer histories: they are in memory twice."""
        return sum(one.jobs.height for one in {id(h): h for h in self._newer.values()}.values())

    def updated(self, jobs: pl.DataFrame) -> LiveUserHistories:
        """Return the histories with the current records of some jobs."""
        jobs = jobs.select(COLUMNS).filter(pl.col("user").is_not_null())
        if jobs.is_empty():
            return self
        users = jobs["user"].unique().to_list()
        before = pl.concat(
            [pl.DataFrame(schema=history_schema()), *(self.history_of(user).of(user) for user in users)]
        )
        whole = pl.concat([before.join(jobs, on=_KEY, how="anti"), jobs])
        history = UserHistory(whole, self.base.facts)
        histories = LiveUserHistories(self.base, self.read_at, self._newer | dict.fromkeys(users, history))
        histories._started_in = self._started_in
        return histories

    def is_outdated(self, at: int) -> bool:
        """Check whether to read it again: too many jobs are in memory twice, or it is too old."""
        too_many = self.newer_jobs > max(20_000, self.base.jobs.height // 2)
        return too_many or at - self.read_at > max(DAY, HISTORY_DAYS * DAY // 100)
