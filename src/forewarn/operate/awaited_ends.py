"""Jobs whose end accounting has yet to tell: the controller shows them as ended, or has them no longer.

Accounting hears of an end from the controller, mostly within a second; hours later where slurmdbd was slow or
away. A history that is read in windows of time would not see such an end again. So whoever is waited for is
kept in the store, in the same write as the sighting that gave reason to, and accounting is asked about it by
its id, less and less often, until it tells.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import astuple, dataclass, replace

import polars as pl

from forewarn.job.arrays import split_arrays
from forewarn.store.base import Store, StoreWriter
from forewarn.store.filters import Equal, Missing

SPACE = "awaited"  # of the online state
GRACE = 150  # seconds in which the next rounds' history mostly tells: more than `collect.LATE`
LONGEST_WAIT = 3600  # seconds between two questions about one job
GIVEN_UP = 86400  # seconds after which nobody will tell, where the controller has told all that it knows
LONGEST_LIVE = 60 * 86400  # seconds since its submit for which a job may wait and run
MOST = 500  # jobs that are asked about, a round

Key = tuple[str, int]  # job id, submit


@dataclass(frozen=True, slots=True)
class AwaitedEnd:
    """Since when a job is waited for, when accounting is asked next, and whether its outcome is known."""

    noticed: int
    next: int
    ended: bool
    tries: int = 0

    def later(self, at: int) -> AwaitedEnd:
        """The same after accounting was asked in vain."""
        pause = min(LONGEST_WAIT, max(GRACE, at - self.noticed))
        return replace(self, next=at + pause, tries=self.tries + 1)


class AwaitedEnds:
    """The jobs of one cluster that are waited for, and those that the controller had when last asked."""

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

    def seen(self, live: Iterable[pl.DataFrame], at: int) -> None:
        """What the controller has now, all of it: what it has no longer is waited for from now on."""
        frames = list(live)
        cut = {
            array
            for frame in frames
            for array in frame.filter(pl.col("array_tasks").str.contains("...", literal=True))["array_job_id"]
        }
        jobs = [split_arrays(frame) for frame in frames]
        here = {key for frame in jobs for key in _keys(frame)}
        gone = {key for key in self._open - here if _array(key) not in cut}
        self._open = {key for frame in jobs for key in _keys(frame.filter(pl.col("outcome").is_null()))}
        for key in gone:
            self._waits.setdefault(key, AwaitedEnd(at, at + GRACE, False))
        for key in [key for key in self._waits if key in self._open]:
            del self._waits[key]  # it is there after all

    def ended(self, sightings: Iterable[pl.DataFrame], at: int) -> None:
        """Sightings of the controller that are new: how those fared that have ended, accounting will tell."""
        for frame in sightings:
            for key in _keys(frame.filter(pl.col("outcome").is_not_null() & ~pl.col("reconstructed"))):
                self._waits[key] = AwaitedEnd(at, at + GRACE, True)

    def told(self, jobs: Iterable[pl.DataFrame]) -> None:
        """Stop waiting for the jobs whose end accounting has reported."""
        for frame in jobs:
            for key in _keys(split_arrays(frame.filter(pl.col("outcome").is_not_null()))):
                self._waits.pop(key, None)
                self._open.discard(key)

    def asked(self, keys: Iterable[Key], at: int) -> None:
        """Accounting was asked about these: those that it did not tell of are asked about later."""
        for key in keys:
            if wait := self._waits.get(key):
                self._waits[key] = wait.later(at)

    def due(self, at: int) -> list[Key]:
        """Whom to ask about now, those waited for the longest first."""
        found = [key for key, wait in self._waits.items() if wait.next <= at]
        return sorted(found, key=lambda key: self._waits[key].noticed)[:MOST]

    def ids(self, keys: Iterable[Key]) -> list[str]:
        """By which ids to ask about them.

        A task that was cancelled while it waited is in its array's record, or in none: accounting finds it by
        the array alone.
        """
        return list(
            dict.fromkeys(
                key[0].partition("_")[0] if self._waits[key].tries and "_" in key[0] else key[0]
                for key in keys
            )
        )

    def give_up(self, at: int, after: int) -> list[Key]:
        """Wait no longer for those missed for so long; those whose outcome nobody has seen."""
        lost = {key: wait for key, wait in self._waits.items() if at - wait.noticed > after}
        for key in lost:
            del self._waits[key]
        return [key for key, wait in lost.items() if not wait.ended]

    @property
    def is_changed(self) -> bool:
        """Whether there is something to save."""
        return self._waits != self._saved

    def save(self, writer: StoreWriter) -> None:
        """Keep who is waited for, in somebody's write."""
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
    """The array of a task."""
    number, _, task = key[0].partition("_")
    return int(number) if task else None
