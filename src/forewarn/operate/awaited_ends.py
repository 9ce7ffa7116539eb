"""Jobs whose end is not in accounting yet: the controller shows them as ended, or no longer lists them.

slurmctld reports an end to slurmdbd mostly within a second, but hours later if slurmdbd was slow or down. A
history that is read in windows of time would never see such an end. So these jobs are written to the store,
together with the observation that showed the end, and accounting is queried for them by job id, less and less
often, until it has their end.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import astuple, dataclass, replace

import polars as pl

from forewarn.job.arrays import split_arrays
from forewarn.store.base import Store, StoreWriter
from forewarn.store.filters import Equal, Missing

SPACE = "awaited"  # the name of these rows in the store's online state
GRACE = 150  # seconds until the first query: mostly the history has the end by then (`LATE`)
LONGEST_WAIT = 3600  # seconds between two queries about one job
GIVE_UP_AFTER = 86400  # seconds after which no end will come, once the controller's queue is empty
LONGEST_LIVE = 60 * 86400  # seconds after its submit in which a job may be pending or running
MOST_QUERIES = 500  # jobs that are queried in one round

Key = tuple[str, int]  # job id, submit


@dataclass(frozen=True, slots=True)
class AwaitedEnd:
    """The wait for one job's end."""

    noticed: int  # when it began
    next: int  # when accounting is queried next
    ended: bool  # whether the controller has shown the outcome
    tries: int = 0

    def later(self, at: int) -> AwaitedEnd:
        """Return the wait after a query without an answer: the next one comes later."""
        pause = min(LONGEST_WAIT, max(GRACE, at - self.noticed))
        return replace(self, next=at + pause, tries=self.tries + 1)


class AwaitedEnds:
    """The jobs of one cluster whose end is awaited, and those that the controller listed last."""

    def __init__(self, store: Store, cluster: str, at: int, user: str | None = None) -> None:
        self._cluster = cluster
        self._waits: dict[Key, AwaitedEnd] = {}
        for _, value in store.all_state(cluster, SPACE):
            job_id, submit, *wait = json.loads(value)
            self._waits[job_id, submit] = AwaitedEnd(*wait)
        self._saved = dict(self._waits)
        where = Missing("outcome")
        frames = store.scan(
            cluster=cluster,
            since=at - LONGEST_LIVE,
            columns=["job_id", "submit"],
            where=where if user is None else where & Equal("user", user),
        )
        self._open = {key for frame in frames for key in _keys(frame)}

    def update_live(self, live: Iterable[pl.DataFrame], at: int) -> None:
        """Compare with all jobs that the controller lists now, and await the end of those that are gone."""
        frames = list(live)
        # Slurm shortens a long list of tasks ("1-5,..."): such an array's tasks may only seem to be gone.
        shortened = {
            array
            for frame in frames
            for array in frame.filter(pl.col("array_tasks").str.contains("...", literal=True))["array_job_id"]
        }
        jobs = [split_arrays(frame) for frame in frames]
        listed = {key for frame in jobs for key in _keys(frame)}
        gone = {key for key in self._open - listed if _array(key) not in shortened}
        self._open = {key for frame in jobs for key in _keys(frame.filter(pl.col("outcome").is_null()))}
        for key in gone:
            self._waits.setdefault(key, AwaitedEnd(at, at + GRACE, False))
        for key in [key for key in self._waits if key in self._open]:
            del self._waits[key]  # an earlier answer lacked it

    def await_ended(self, observations: Iterable[pl.DataFrame], at: int) -> None:
        """Await the final record of jobs that the controller has just shown as ended."""
        for frame in observations:
            for key in _keys(frame.filter(pl.col("outcome").is_not_null() & ~pl.col("reconstructed"))):
                self._waits[key] = AwaitedEnd(at, at + GRACE, True)

    def settle(self, jobs: Iterable[pl.DataFrame]) -> None:
        """Stop waiting for the jobs whose end accounting has reported."""
        for frame in jobs:
            for key in _keys(split_arrays(frame.filter(pl.col("outcome").is_not_null()))):
                self._waits.pop(key, None)
                self._open.discard(key)

    def postpone(self, keys: Iterable[Key], at: int) -> None:
        """Plan the next query of those jobs whose end accounting did not have."""
        for key in keys:
            if wait := self._waits.get(key):
                self._waits[key] = wait.later(at)

    def due(self, at: int) -> list[Key]:
        """Return the jobs to query now, the longest awaited first."""
        keys = [key for key, wait in self._waits.items() if wait.next <= at]
        return sorted(keys, key=lambda key: self._waits[key].noticed)[:MOST_QUERIES]

    def query_ids(self, keys: Iterable[Key]) -> list[str]:
        """Return the job ids by which accounting finds these jobs.

        A task that was cancelled while pending is in its array's record, or in none: after a first query by
        its own id, it is queried by the array's.
        """
        return list(
            dict.fromkeys(
                key[0].partition("_")[0] if self._waits[key].tries and "_" in key[0] else key[0]
                for key in keys
            )
        )

    def give_up(self, at: int, after: int) -> list[Key]:
        """Stop waiting for jobs awaited for longer than `after` seconds; return those without an outcome."""
        lost = {key: wait for key, wait in self._waits.items() if at - wait.noticed > after}
        for key in lost:
            del self._waits[key]
        return [key for key, wait in lost.items() if not wait.ended]

    @property
    def is_changed(self) -> bool:
        """Whether anything differs from what the store has."""
        return self._waits != self._saved

    def save(self, writer: StoreWriter) -> None:
        """Write the awaited jobs to the store, as part of the caller's write."""
        if self.is_changed:
            rows = [
                (number, json.dumps([*key, *astuple(wait)]).encode())
                for number, (key, wait) in enumerate(self._waits.items())
            ]
            writer.drop_state(self._cluster, SPACE)
            writer.put_state(self._cluster, SPACE, rows)
            self._saved = dict(self._waits)


def _keys(frame: pl.DataFrame) -> Collection[Key]:
    return list(frame.select("job_id", "submit").iter_rows())


def _array(key: Key) -> int | None:
    """Return the array of a task; None for any other job."""
    number, _, task = key[0].partition("_")
    return int(number) if task else None
