"""The online state kept up to date by the one who writes it: what was seen becomes events, in their order.

A round of the collector brings a few sightings: those are walked one by one. A history that is read for the
first time, or after a gap, lies before what the state knows: then it is made anew from the store.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from forewarn.errors import StoreError
from forewarn.features.kernel import layout as L  # noqa: N812
from forewarn.features.online import OnlineFeatures
from forewarn.features.present import is_current
from forewarn.features.saved import job_key
from forewarn.job.arrays import split_arrays
from forewarn.job.columns import to_records
from forewarn.job.outcomes import Policy
from forewarn.job.record import Job
from forewarn.store.base import KNOWN_AT, Store

LATE = 3600  # seconds by which a job that ended unseen may lie before what the state knows
MANY = 2000  # events from which a walk over the whole history is the quicker and the exact way
Key = tuple[str, int]  # job id, submit


@dataclass(slots=True)
class Happened:
    """Jobs to which something happened since the last time."""

    submitted: list[Key] = field(default_factory=list)
    started: list[Key] = field(default_factory=list)
    ended: list[Key] = field(default_factory=list)
    related: set[Key] = field(default_factory=set)  # that wait, and whose like has ended
    anew: bool = False  # the state was made from history: nothing is known of what happened


class Upkeep:
    """The online state of one cluster, for its one writer."""

    def __init__(self, store: Store, cluster: str, policy: Policy) -> None:
        self._store, self._cluster, self._policy = store, cluster, policy
        self._state: OnlineFeatures | None = None
        self._live: dict[int, Key] = {}  # those in flight, by their key in the state
        self._told: set[int] = set()  # those that have ended of late: accounting tells of them again

    @property
    def live(self) -> Iterable[Key]:
        """The jobs in flight."""
        return self._live.values()

    def after(self, seen: pl.DataFrame) -> Happened:
        """Walk what a round tells of jobs, all that were seen in it, and save the state.

        Those in which nothing is new cost next to nothing.
        """
        if self._state is None and is_current(self._store, self._cluster, self._policy):
            self._load()
        jobs = list(self._current(self._news(seen))) if self._state is not None else []
        if self._state is None or len(jobs) > MANY or any(self._is_old(job, at) for job, at in jobs):
            return self._anew()
        happened = Happened()
        events = sorted(self._events(jobs), key=lambda event: event[:2])
        for moment, kind, _, job in events:
            self._walk(happened, moment, kind, job)
        self._save()
        happened.submitted = [key for key in happened.submitted if key not in set(happened.ended)]
        happened.related -= {*happened.ended, *happened.started}
        return happened

    def _load(self) -> None:
        try:
            self._state = OnlineFeatures.load(self._store, self._cluster, self._policy)
        except StoreError:
            return
        self._name_live()

    def _anew(self) -> Happened:
        revision = self._store.revision(cluster=self._cluster)
        self._state = OnlineFeatures.from_history(self._store, self._cluster, self._policy)
        self._name_live()
        with self._store.writing() as writer:
            self._state.save(writer, revision)
        return Happened(submitted=list(self._live.values()), anew=True)

    def _name_live(self) -> None:
        """The state knows jobs by a hash: what those are called is in the store."""
        assert self._state is not None
        waiting = pl.col("outcome").is_null()
        frames = self._store.scan(
            cluster=self._cluster, columns=["job_id", "submit", "outcome"], where=waiting
        )
        keys = ((job_id, submit) for frame in frames for job_id, submit, _ in frame.iter_rows())
        named = {job_key(*key): key for key in keys}
        self._live = {known: named[known] for known in self._state.places if known in named}
        late = self._store.scan(
            cluster=self._cluster,
            columns=["job_id", "submit", KNOWN_AT],
            where=pl.col(KNOWN_AT) >= self._state.at - 2 * LATE,
        )
        self._told = {job_key(job_id, submit) for frame in late for job_id, submit, _ in frame.iter_rows()}

    def _news(self, seen: pl.DataFrame) -> pl.DataFrame:
        """Those in flight of which the state knows less, and those that it does not know."""
        assert self._state is not None
        places, flight = self._state.places, self._state.state.flight

        def is_new(job_id: str, submit: int, start: int | None, outcome: str | None) -> bool:
            place = places.get(job_key(job_id, submit))
            if place is None or outcome is not None:
                return True
            return start is not None and bool(np.isnan(flight[place, L.FL_START]))

        tasks = split_arrays(seen).select("job_id", "submit", "start", "outcome")
        return tasks.filter(pl.Series([is_new(*row) for row in tasks.iter_rows()], dtype=pl.Boolean))

    def _current(self, seen: pl.DataFrame) -> Iterable[tuple[Job, int | None]]:
        """The jobs as the store has them now, with when their outcome became known."""
        if seen.is_empty():
            return
        wanted = seen.select("job_id", "submit").unique()
        frames = self._store.scan(
            cluster=self._cluster,
            since=wanted.select(pl.col("submit").min()).item(),
            job_ids=wanted["job_id"].to_list(),
        )
        for frame in frames:
            some = frame.join(wanted, on=["job_id", "submit"], how="semi", maintain_order="left")
            yield from zip(to_records(some, Job), some[KNOWN_AT], strict=True)

    def _is_old(self, job: Job, known_at: int | None) -> bool:
        """Whether it ended unseen so long ago that its outcome comes out of order."""
        assert self._state is not None
        number = job_key(job.job_id, job.submit)
        unseen = number not in self._state.places and number not in self._told
        return known_at is not None and unseen and known_at < self._state.at - LATE

    def _events(self, jobs: list[tuple[Job, int | None]]) -> Iterable[tuple[int, int, str, Job]]:
        """Moment, kind (0 submit, 1 start, 2 known) and job of what the state does not know yet."""
        assert self._state is not None
        for job, known_at in jobs:
            number = job_key(job.job_id, job.submit)
            place = self._state.places.get(number)
            if place is None and number in self._told:
                continue  # told again, in more detail
            if place is None:
                yield job.submit, 0, job.job_id, job
            begun = place is not None and not np.isnan(self._state.state.flight[place, L.FL_START])
            if job.start is not None and not begun:
                yield max(job.start, job.submit), 1, job.job_id, job
            if known_at is not None:
                yield max(known_at, job.start or 0, job.submit), 2, job.job_id, job

    def _walk(self, happened: Happened, moment: int, kind: int, job: Job) -> None:
        assert self._state is not None
        key, number = (job.job_id, job.submit), job_key(job.job_id, job.submit)
        if kind == 0:
            self._state.submit(job)
            self._live[number] = key
            happened.submitted.append(key)
        elif kind == 1:
            self._state.start(job)
            happened.started.append(key)
        else:
            happened.related |= self._alike(number)
            self._state.ended(job, moment)
            self._live.pop(number, None)
            self._told.add(number)
            happened.ended.append(key)

    def _alike(self, number: int) -> set[Key]:
        """Jobs that wait, of the same user with the same request."""
        assert self._state is not None
        st, places = self._state.state, self._state.places
        if number not in places:
            return set()
        request = st.flight_key[places[number], L.E_USER_REQUEST]
        return {
            self._live[other]
            for other, place in places.items()
            if other != number
            and other in self._live
            and st.flight_key[place, L.E_USER_REQUEST] == request
            and np.isnan(st.flight[place, L.FL_START])
        }

    def _save(self) -> None:
        assert self._state is not None
        revision = self._store.revision(cluster=self._cluster)
        with self._store.writing() as writer:
            self._state.save(writer, revision)
