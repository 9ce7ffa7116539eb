"""The online state kept up to date by the collector: what is new in the store becomes events, in their order.

The store itself says what is new since what the state knows, whoever wrote it and whenever: in this round, in
earlier ones, before a restart, or another process. A few jobs are walked one by one. Many of them, or ones
that lie long before what the state knows, make it a walk over the whole history.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import nsmallest

import numpy as np
import polars as pl

from forewarn.errors import StoreError
from forewarn.features.kernel import layout as L  # noqa: N812
from forewarn.features.online import OnlineFeatures
from forewarn.features.programs import EarlierPrograms
from forewarn.features.saved import Mark, fitting_mark, job_key
from forewarn.job.columns import to_records
from forewarn.job.outcomes import Policy
from forewarn.job.record import Job
from forewarn.store.base import KNOWN_AT, Store
from forewarn.store.filters import Between, Missing

LATE = 3600  # seconds by which a job that ended unseen may lie before what the state knows
MANY = (
    2000  # changed jobs, or a twentieth of all, from which a walk over the whole history is the quicker way
)
LONGEST = 60 * 86400  # seconds since its submit after which a job of which nothing is heard is no longer live
SPEAKERS = 3  # of the jobs that wait with one request: the newest, for the others
Key = tuple[str, int]  # job id, submit


@dataclass(slots=True)
class Happened:
    """Jobs to which something happened since the last time."""

    submitted: list[Key] = field(default_factory=list)
    started: list[Key] = field(default_factory=list)
    ended: list[Key] = field(default_factory=list)
    related: list[Key] = field(default_factory=list)  # that wait, and whose like has ended
    anew: bool = False  # what happened is not known: all that is live counts as submitted


class Upkeep:
    """The online state of one cluster, for its one writer."""

    def __init__(self, store: Store, cluster: str, policy: Policy) -> None:
        self._store, self._cluster, self.policy = store, cluster, policy
        self._state: OnlineFeatures | None = None
        self._mark: Mark | None = None  # of what was saved last
        self._live: dict[int, Key] = {}  # those in flight, by their number in the state
        self._waiting: dict[int, set[int]] = {}  # user and request to the numbers of those that wait
        self._held: dict[Key, int] = {}  # outcomes that count as known only later

    @property
    def programs(self) -> EarlierPrograms | None:
        """What earlier jobs ran, as the state knows it."""
        return None if self._state is None else self._state.programs

    @property
    def waiting(self) -> list[Key]:
        """The jobs that wait."""
        return [self._live[number] for some in self._waiting.values() for number in some]

    def after(self, at: int) -> Happened:
        """Walk what is new in the store, and save the state."""
        try:
            return self._after(at)
        except BaseException:
            self._state = None  # walked in part, or not saved though it believes so: what is saved is whole
            raise

    def _after(self, at: int) -> Happened:
        if self._state is None or fitting_mark(self._store, self._cluster, self.policy) != self._mark:
            self._load()
        if self._state is None or self._mark is None:
            return self._anew(at)
        is_ours = self._mark.kept is not None
        changed, revision = self._store.changes(cluster=self._cluster, since=self._mark.revision)
        if changed.height > max(MANY, self._store.count(cluster=self._cluster) // 20):
            return self._anew(at)
        jobs = list(self._current(changed, at))
        if any(self._is_old(job, known_at) or not self._correct(job) for job, known_at in jobs):
            return self._anew(at)
        if any(self._state.programs.awaits(job) for job, _ in jobs):
            return self._anew(at)
        happened = self._walk_all(jobs, at)
        self._save(revision, at)
        if not is_ours:
            happened.submitted, happened.anew = list(self._live.values()), True
        return happened

    # --- where the state comes from, and goes ----------------------------------------------------------

    def _load(self) -> None:
        """What was saved, by this one before or by another; nothing where that does not fit."""
        self._state, self._mark = None, fitting_mark(self._store, self._cluster, self.policy)
        try:
            state = OnlineFeatures.load(self._store, self._cluster, self.policy)
        except StoreError:
            return
        if fitting_mark(self._store, self._cluster, self.policy) == self._mark:  # nobody wrote meanwhile
            self._take(state)

    def _anew(self, at: int) -> Happened:
        revision = self._store.revision(cluster=self._cluster)
        state = OnlineFeatures.from_history(self._store, self._cluster, self.policy, until=at)
        self._take(state)
        self._mark = Mark(revision, state.at, kept=at)
        with self._store.writing() as writer:
            state.save(writer, self._mark)
        return Happened(submitted=list(self._live.values()), anew=True)

    def _save(self, revision: int, at: int) -> None:
        assert self._state is not None
        mark = Mark(revision, self._state.at, kept=at)
        with self._store.writing() as writer:
            # Nobody else writes now. Whoever made the state anew meanwhile did so as a whole.
            if fitting_mark(self._store, self._cluster, self.policy) == self._mark:
                self._state.save(writer, mark)
                self._mark = mark
            else:
                self._state = None

    def _take(self, state: OnlineFeatures) -> None:
        """The state knows jobs by a number: what those are called is in the store."""
        self._state, self._waiting = state, {}
        frames = self._store.scan(
            cluster=self._cluster,
            since=state.at - LONGEST,
            columns=["job_id", "submit", KNOWN_AT],
            where=Missing("outcome") | Between(KNOWN_AT, state.at - LATE),
        )
        self._live, self._held = {}, {}
        for job_id, submit, known_at in (row for frame in frames for row in frame.iter_rows()):
            if (number := job_key(job_id, submit)) in state.places:
                self._live[number] = job_id, submit
                if known_at is not None:
                    self._held[job_id, submit] = known_at
        for number in self._live:
            if np.isnan(state.state.flight[state.places[number], L.FL_START]):
                self._waiting.setdefault(self._request(number), set()).add(number)

    # --- what is new -----------------------------------------------------------------------------------

    def _current(self, changed: pl.DataFrame, at: int) -> Iterable[tuple[Job, int | None]]:
        """The jobs that changed as the store has them now, with when their outcome became known."""
        due = [key for key, known_at in self._held.items() if known_at <= at]
        wanted = {*changed.select("job_id", "submit").iter_rows(), *due}
        if not wanted:
            return
        frames = self._store.scan(
            cluster=self._cluster,
            since=min(submit for _, submit in wanted),
            job_ids=[job_id for job_id, _ in wanted],
        )
        for frame in frames:
            for job, known_at in zip(to_records(frame, Job), frame[KNOWN_AT], strict=True):
                if (job.job_id, job.submit) in wanted:
                    yield job, known_at

    def _is_old(self, job: Job, known_at: int | None) -> bool:
        """Whether it ended unseen so long ago that its outcome comes out of order."""
        assert self._state is not None
        number = job_key(job.job_id, job.submit)
        unseen = number not in self._state.places and number not in self._state.landed
        return known_at is not None and unseen and known_at < self._state.at - LATE

    def _correct(self, job: Job) -> bool:
        """Take in what became known after a job's outcome; False where that itself changed.

        Slurm's controller tells an end first, accounting what the job used some seconds later.
        """
        assert self._state is not None
        number = job_key(job.job_id, job.submit)
        landed = number in self._state.landed and number not in self._state.places
        return not landed or job.outcome is None or self._state.correct(job)

    def _events(self, job: Job, known_at: int | None, at: int) -> Iterable[tuple[int, int, Job]]:
        """Moment, kind (0 submit, 1 start, 2 known) and job of what the state does not know yet."""
        assert self._state is not None
        number = job_key(job.job_id, job.submit)
        place = self._state.places.get(number)
        if place is None and number in self._state.landed:
            return  # `_correct` has taken in what is new of it
        if place is None:
            yield job.submit, 0, job
        begun = place is not None and not np.isnan(self._state.state.flight[place, L.FL_START])
        if job.start is not None and not begun:
            yield max(job.start, job.submit), 1, job
        self._held.pop((job.job_id, job.submit), None)
        if known_at is not None and known_at > at:
            self._held[job.job_id, job.submit] = known_at
        elif known_at is not None:
            yield max(known_at, job.start or 0, job.submit), 2, job

    # --- what is walked --------------------------------------------------------------------------------

    def _walk_all(self, jobs: list[tuple[Job, int | None]], at: int) -> Happened:
        happened, requests = Happened(), set[int]()
        events = [event for job, known_at in jobs for event in self._events(job, known_at, at)]
        for moment, kind, job in sorted(events, key=_order):
            request = self._walk(happened, moment, kind, job)
            if kind == 2:
                requests.add(request)
        ended = set(happened.ended)
        happened.submitted = [key for key in happened.submitted if key not in ended]
        for request in requests:
            like_it = (self._live[number] for number in self._waiting.get(request, ()))
            happened.related += nsmallest(SPEAKERS, like_it, key=newest_first)
        return happened

    def _walk(self, happened: Happened, moment: int, kind: int, job: Job) -> int:
        """One event; whose and what request it was of."""
        assert self._state is not None
        key, number = (job.job_id, job.submit), job_key(job.job_id, job.submit)
        if kind == 0:
            self._state.submit(job)
            self._live[number] = key
            happened.submitted.append(key)
        request = self._request(number)
        if kind == 0:
            self._waiting.setdefault(request, set()).add(number)
        else:
            self._waits_no_longer(request, number)
        if kind == 1:
            self._state.start(job)
            happened.started.append(key)
        elif kind == 2:
            self._state.ended(job, moment)
            self._live.pop(number, None)
            happened.ended.append(key)
        return request

    def _waits_no_longer(self, request: int, number: int) -> None:
        same = self._waiting.get(request, set())
        same.discard(number)
        if not same:
            self._waiting.pop(request, None)

    def _request(self, number: int) -> int:
        assert self._state is not None
        return int(self._state.state.flight_key[self._state.places[number], L.E_USER_REQUEST])


def newest_first(key: Key) -> tuple[int, int, str]:
    """An order of jobs: the last submitted first, of an array its first task."""
    job_id, submit = key
    return -submit, len(job_id), job_id


def _order(event: tuple[int, int, Job]) -> tuple[int, int, int, int, str]:
    """As the batch walks them (`features/batch.py`)."""
    moment, kind, job = event
    return moment, kind, job.submit, len(job.job_id), job.job_id
