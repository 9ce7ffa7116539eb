"""The online state in memory, following the store: what is new in it becomes events, in their order.

The store itself says what is new since what the state knows, whoever wrote it and whenever: in this round, in
earlier ones, before a restart, or another process. A few jobs are walked one by one. Many of them, or ones
that lie long before what the state knows, make it a walk over the whole history.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from heapq import nsmallest

import numpy as np
import polars as pl

from forewarn.errors import StoreError
from forewarn.features.kernel import layout as L  # noqa: N812
from forewarn.features.online import OnlineFeatures
from forewarn.features.state_store import StatePosition, fitting_mark, job_key
from forewarn.job.columns import JOB_SCHEMA, to_records
from forewarn.job.outcomes import FailurePolicy
from forewarn.job.record import Job
from forewarn.store.base import KNOWN_AT, ClusterFacts, Store
from forewarn.store.filters import Between, Missing

LATE = 3600  # seconds by which a job that ended unseen may lie before what the state knows
MANY = (
    2000  # changed jobs, or a twentieth of all, from which a walk over the whole history is the quicker way
)
LONGEST = 60 * 86400  # seconds since its submit after which a job of which nothing is heard is no longer live
SPEAKERS = 3  # of the jobs that wait with one request: the newest, for the others
Key = tuple[str, int]  # job id, submit
_KEY_SCHEMA = {"job_id": pl.String(), "submit": pl.Int64()}
log = logging.getLogger(__name__)


@dataclass(slots=True)
class StateChanges:
    """Jobs to which something happened since the last time."""

    submitted: list[Key] = field(default_factory=list)
    started: list[Key] = field(default_factory=list)
    ended: list[Key] = field(default_factory=list)
    related: list[Key] = field(default_factory=list)  # that wait, and whose like has ended
    anew: bool = False  # what happened is not known: all that is live counts as submitted


@dataclass(slots=True)
class StateStep:
    """What brings a state to where the store is: some jobs that changed, or another state."""

    at: int
    revision: int
    jobs: pl.DataFrame | None = None  # those that changed, as the store has them now
    state: OnlineFeatures | None = None  # in the place of the one before
    mark: StatePosition | None = None  # of that one, where it was saved
    live: dict[int, Key] = field(default_factory=dict)
    held: dict[Key, int] = field(default_factory=dict)


class FollowedState:
    """The online state of one cluster in memory, which follows the store.

    One process `saves` it: the one writer of the state in the store. Others follow with a copy of their own.
    For one thread. `apply` alone changes the state: whoever looks at it must not do so meanwhile.
    """

    def __init__(self, store: Store, cluster: str, policy: FailurePolicy, *, saves: bool) -> None:
        self._store, self._cluster, self.policy, self.saves = store, cluster, policy, saves
        self.state: OnlineFeatures | None = None  # None before the first step
        self._mark: StatePosition | None = (
            None  # how far the state has come: where it is saved, what was saved last
        )
        self._live: dict[int, Key] = {}  # those in flight, by their number in the state
        self._waiting: dict[int, set[int]] = {}  # user and request to the numbers of those that wait
        self._held: dict[Key, int] = {}  # outcomes that count as known only later
        self._is_whole = False  # not while it is walked, and until it is saved: what is saved is whole

    @property
    def waiting(self) -> list[Key]:
        """The jobs that wait."""
        return [self._live[number] for some in self._waiting.values() for number in some]

    def follow(self, at: int) -> StateChanges:
        """Take up what is new in the store, and save the state where that is this one's task."""
        step = self.prepare(at)
        happened = self.apply(step)
        self.save(step)
        return happened

    def prepare(self, at: int) -> StateStep:
        """Read what is new; nothing changes yet."""
        if not self._is_another():
            assert self.state is not None
            assert self._mark is not None
            return self._changes(
                StateStep(at, self._mark.revision, mark=self._mark, held=self._held), self.state
            )
        mark = fitting_mark(self._store, self._cluster, self.policy)
        if mark is None:
            return self._anew(at)
        try:
            state = OnlineFeatures.load(self._store, self._cluster, self.policy)
        except StoreError:
            return self._anew(at)
        if fitting_mark(self._store, self._cluster, self.policy) != mark:  # somebody wrote meanwhile
            return self._anew(at)
        return self._changes(StateStep(at, mark.revision, None, state, mark, *self._named(state)), state)

    def _changes(self, step: StateStep, state: OnlineFeatures) -> StateStep:
        """The same step with the jobs that changed since the state was what it is."""
        changed, step.revision = self._store.changes(cluster=self._cluster, since=step.revision)
        if changed.height > max(MANY, self._store.count(cluster=self._cluster) // 20):
            return self._anew(step.at)
        step.jobs = self._current(changed, step.held, step.at)
        for job, known_at in zip(to_records(step.jobs, Job), step.jobs[KNOWN_AT], strict=True):
            if _is_old(state, job, known_at) or _is_revoked(state, job) or state.programs.awaits(job):
                return self._anew(step.at)
        return step

    def _anew(self, at: int) -> StateStep:
        """A state made from all of the history."""
        log.info("%s: the online state is made from all of its history", self._cluster)
        revision = self._store.revision(cluster=self._cluster)
        state = OnlineFeatures.from_history(self._store, self._cluster, self.policy, until=at)
        return StateStep(at, revision, None, state, None, *self._named(state))

    def apply(self, step: StateStep) -> StateChanges:
        """Change the state; what happened to jobs."""
        self._is_whole = False
        if step.state is not None:
            self._take(step)
        if step.jobs is None:
            return StateChanges(submitted=list(self._live.values()), anew=True)
        happened = self._walk_all(
            list(zip(to_records(step.jobs, Job), step.jobs[KNOWN_AT], strict=True)), step.at
        )
        if step.mark is not None and step.mark.kept is None:
            # Somebody made it for once: nobody has looked at what is live.
            happened.submitted, happened.anew = list(self._live.values()), True
        return happened

    def save(self, step: StateStep) -> None:
        """Save what changed, where that is this one's task."""
        assert self.state is not None
        mark = StatePosition(step.revision, self.state.at, kept=step.at)
        if not self.saves:
            self.state.settle()
            self._mark, self._is_whole = mark, True
            return
        with self._store.writing() as writer:
            # Nobody else writes now. Whoever made the state anew meanwhile did so as a whole.
            expected = None if step.jobs is None else self._mark
            if expected is None or fitting_mark(self._store, self._cluster, self.policy) == expected:
                self.state.save(writer, mark)
                self._mark, self._is_whole = mark, True

    # --- where the state comes from ---------------------------------------------------------------------

    def _is_another(self) -> bool:
        """Whether the state in memory is none, or no longer what it should be."""
        if self.state is None or self._mark is None or not self._is_whole:
            return True
        if self.saves:
            return fitting_mark(self._store, self._cluster, self.policy) != self._mark
        # Fields may be read otherwise by now, and programs have become known of jobs long past.
        facts = self._store.clusters().get(self._cluster, ClusterFacts())
        programs = self._store.revision("program", cluster=self._cluster)
        return (facts, programs) != (self.state.facts, self.state.programs.revision)

    def _named(self, state: OnlineFeatures) -> tuple[dict[int, Key], dict[Key, int]]:
        """Jobs in flight by their numbers in a state, and outcomes that count as known only later.

        The state knows jobs by a number: what those are called is in the store.
        """
        frames = self._store.scan(
            cluster=self._cluster,
            since=state.at - LONGEST,
            columns=["job_id", "submit", KNOWN_AT],
            where=Missing("outcome") | Between(KNOWN_AT, least=state.at - LATE),
        )
        live: dict[int, Key] = {}
        held: dict[Key, int] = {}
        for job_id, submit, known_at in (row for frame in frames for row in frame.iter_rows()):
            if (number := job_key(job_id, submit)) in state.places:
                live[number] = job_id, submit
                if known_at is not None:
                    held[job_id, submit] = known_at
        return live, held

    def _take(self, step: StateStep) -> None:
        self.state, self._mark, self._live, self._held = step.state, step.mark, step.live, step.held
        self._waiting = {}
        assert self.state is not None
        for number in self._live:
            if np.isnan(self.state.state.flight[self.state.places[number], L.FL_START]):
                self._waiting.setdefault(self._request(number), set()).add(number)

    # --- what is new -----------------------------------------------------------------------------------

    def _current(self, changed: pl.DataFrame, held: Mapping[Key, int], at: int) -> pl.DataFrame:
        """The jobs that changed, or whose outcome counts as known by now, as the store has them."""
        due = [key for key, known_at in held.items() if known_at <= at]
        nothing = pl.DataFrame(schema={**JOB_SCHEMA, KNOWN_AT: pl.Int64()})
        wanted = pl.concat(
            [changed.select("job_id", "submit"), pl.DataFrame(due, schema=_KEY_SCHEMA, orient="row")]
        ).unique()
        if wanted.is_empty():
            return nothing
        frames = self._store.scan(
            cluster=self._cluster,
            since=min(wanted["submit"]),
            job_ids=wanted["job_id"].unique().to_list(),
        )
        return pl.concat([nothing, *frames]).join(wanted, on=["job_id", "submit"], how="semi")

    def _events(self, job: Job, known_at: int | None, at: int) -> Iterable[tuple[int, int, Job]]:
        """Moment, kind (0 submit, 1 start, 2 known) and job of what the state does not know yet."""
        assert self.state is not None
        number = job_key(job.job_id, job.submit)
        place = self.state.places.get(number)
        if place is None and number in self.state.landed:
            if job.outcome is not None:
                # Slurm's controller tells an end first, accounting what the job used some seconds later.
                self.state.correct(job)
            return
        if place is None:
            yield job.submit, 0, job
        begun = place is not None and not np.isnan(self.state.state.flight[place, L.FL_START])
        if job.start is not None and not begun:
            yield max(job.start, job.submit), 1, job
        self._held.pop((job.job_id, job.submit), None)
        if known_at is not None and known_at > at:
            self._held[job.job_id, job.submit] = known_at
        elif known_at is not None:
            yield max(known_at, job.start or 0, job.submit), 2, job

    # --- what is walked --------------------------------------------------------------------------------

    def _walk_all(self, jobs: list[tuple[Job, int | None]], at: int) -> StateChanges:
        happened, requests = StateChanges(), set[int]()
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

    def _walk(self, happened: StateChanges, moment: int, kind: int, job: Job) -> int:
        """One event; whose and what request it was of."""
        assert self.state is not None
        key, number = (job.job_id, job.submit), job_key(job.job_id, job.submit)
        if kind == 0:
            self.state.submit(job)
            self._live[number] = key
            happened.submitted.append(key)
        request = self._request(number)
        if kind == 0:
            self._waiting.setdefault(request, set()).add(number)
        else:
            self._waits_no_longer(request, number)
        if kind == 1:
            self.state.start(job)
            happened.started.append(key)
        elif kind == 2:
            self.state.ended(job, moment)
            self._live.pop(number, None)
            happened.ended.append(key)
        return request

    def _waits_no_longer(self, request: int, number: int) -> None:
        same = self._waiting.get(request, set())
        same.discard(number)
        if not same:
            self._waiting.pop(request, None)

    def _request(self, number: int) -> int:
        assert self.state is not None
        return int(self.state.state.flight_key[self.state.places[number], L.E_USER_REQUEST])


def _is_old(state: OnlineFeatures, job: Job, known_at: int | None) -> bool:
    """Whether it ended unseen so long ago that its outcome comes out of order."""
    number = job_key(job.job_id, job.submit)
    unseen = number not in state.places and number not in state.landed
    return known_at is not None and unseen and known_at < state.at - LATE


def _is_revoked(state: OnlineFeatures, job: Job) -> bool:
    """Whether an outcome that was walked is another one now."""
    number = job_key(job.job_id, job.submit)
    landed = number in state.landed and number not in state.places
    return landed and job.outcome is not None and not state.can_correct(job)


def newest_first(key: Key) -> tuple[int, int, str]:
    """An order of jobs: the last submitted first, of an array its first task."""
    job_id, submit = key
    return -submit, len(job_id), job_id


def _order(event: tuple[int, int, Job]) -> tuple[int, int, int, int, str]:
    """As the batch walks them (`features/batch.py`)."""
    moment, kind, job = event
    return moment, kind, job.submit, len(job.job_id), job.job_id
