"""The online state in memory, which follows the store: new records become events, in their order.

The store tells which jobs changed since a revision, whoever wrote them and whenever: in this round, in
earlier ones, before a restart, or in another process. A few changed jobs are processed one by one. If there
are many, or some ended long before the state's time, the state is rebuilt from the whole history.
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
from forewarn.features.state_store import StatePosition, job_key, valid_position
from forewarn.job.columns import JOB_SCHEMA, to_records
from forewarn.job.outcomes import FailurePolicy
from forewarn.job.record import Job
from forewarn.store.base import KNOWN_AT, ClusterFacts, Store
from forewarn.store.filters import Between, Missing

LATE = 3600  # seconds before the state's time in which the outcome of an unobserved job may have become known
MANY = 2000  # changed jobs, or a twentieth of all, from which a rebuild is faster
LONGEST = 60 * 86400  # seconds after its submit after which a job without an outcome is no longer live
REPRESENTATIVES = 3  # pending jobs of one request that are assessed again: the newest, for all
Key = tuple[str, int]  # job id, submit
SUBMITTED, STARTED, ENDED = range(3)  # events of a job, in the order in which they follow at one moment
StateEvent = tuple[int, int, Job]  # moment, which of these, job
_KEY_SCHEMA = {"job_id": pl.String(), "submit": pl.Int64()}
log = logging.getLogger(__name__)


@dataclass(slots=True)
class StateChanges:
    """The jobs that changed since the last update."""

    submitted: list[Key] = field(default_factory=list)
    started: list[Key] = field(default_factory=list)
    ended: list[Key] = field(default_factory=list)
    related: list[Key] = field(default_factory=list)  # pending jobs of a request of which a job has ended
    rebuilt: bool = False  # the changes are unknown: `submitted` are all live jobs


@dataclass(slots=True)
class StateUpdate:
    """An update of the state to the store's revision: changed jobs, or a new state, or both."""

    at: int
    revision: int
    jobs: pl.DataFrame | None = None  # current records of changed jobs; None: the new state has them
    state: OnlineFeatures | None = None  # replaces the one before
    position: StatePosition | None = None  # of the new state, if it was saved
    live: dict[int, Key] = field(default_factory=dict)
    delayed: dict[Key, int] = field(default_factory=dict)
    removals: int = 0  # of jobs from the store, when the update was prepared


class FollowedState:
    """The online state of one cluster in memory, which follows the store.

    Only one process `saves` it to the store; others follow with a copy of their own. It is for one thread.
    Only `apply` changes the state: no other thread may read it meanwhile.
    """

    def __init__(self, store: Store, cluster: str, policy: FailurePolicy, *, saves: bool) -> None:
        self._store, self._cluster, self.policy, self.saves = store, cluster, policy, saves
        self.features: OnlineFeatures | None = None  # None before the first update
        self._position: StatePosition | None = None  # of the state in memory; if it saves, the last saved one
        self._live: dict[int, Key] = {}  # pending and running jobs, by their number in the state
        self._pending: dict[int, set[int]] = {}  # numbers of pending jobs, by user and request
        self._delayed: dict[Key, int] = {}  # when outcomes become known that are not known yet
        self._removals = 0  # of jobs from the store that the state in memory knows of
        self._is_consistent = False  # false from the begin of an update until it is saved

    @property
    def pending(self) -> list[Key]:
        """The pending jobs."""
        return [self._live[number] for numbers in self._pending.values() for number in numbers]

    @property
    def live(self) -> list[Key]:
        """The pending and running jobs."""
        return list(self._live.values())

    def follow(self, at: int) -> StateChanges:
        """Update the state from the store, and save it if that is this process's task."""
        update = self.prepare(at)
        changes = self.apply(update)
        self.save(update)
        return changes

    def prepare(self, at: int) -> StateUpdate:
        """Read what is new in the store, without changing the state."""
        removals = self._store.removals(cluster=self._cluster)
        update = self._prepared(at, reload=removals != self._removals or self._must_reload())
        update.removals = removals
        return update

    def _prepared(self, at: int, *, reload: bool) -> StateUpdate:
        if not reload:
            assert self.features is not None
            assert self._position is not None
            return self._with_changed_jobs(
                StateUpdate(at, self._position.revision, position=self._position, delayed=self._delayed),
                self.features,
            )
        position = valid_position(self._store, self._cluster, self.policy)
        if position is None:
            return self._rebuild(at)
        try:
            state = OnlineFeatures.load(self._store, self._cluster, self.policy)
        except StoreError:
            return self._rebuild(at)
        if valid_position(self._store, self._cluster, self.policy) != position:  # another process wrote it
            return self._rebuild(at)
        update = StateUpdate(at, position.revision, None, state, position, *self._live_keys(state))
        return self._with_changed_jobs(update, state)

    def _with_changed_jobs(self, update: StateUpdate, state: OnlineFeatures) -> StateUpdate:
        """Add the jobs that changed since a state to its update, or rebuild it if that is necessary."""
        changed, update.revision = self._store.changes(cluster=self._cluster, since=update.revision)
        if changed.height > max(MANY, self._store.count(cluster=self._cluster) // 20):
            return self._rebuild(update.at)
        update.jobs = self._current(changed, update.delayed, update.at)
        for job, known_at in zip(to_records(update.jobs, Job), update.jobs[KNOWN_AT], strict=True):
            if _is_too_late(state, job, known_at) or _is_revoked(state, job) or state.programs.awaits(job):
                return self._rebuild(update.at)
        return update

    def _rebuild(self, at: int) -> StateUpdate:
        """Build a state from the whole history."""
        log.info("%s: rebuilding the online state from the whole history", self._cluster)
        revision = self._store.revision(cluster=self._cluster)
        state = OnlineFeatures.from_history(self._store, self._cluster, self.policy, until=at)
        return StateUpdate(at, revision, None, state, None, *self._live_keys(state))

    def apply(self, update: StateUpdate) -> StateChanges:
        """Apply an update to the state; return the jobs that changed."""
        self._is_consistent, self._removals = False, update.removals
        if update.state is not None:
            self._replace_state(update)
        if update.jobs is None:
            return StateChanges(submitted=list(self._live.values()), rebuilt=True)
        changes = self._process_all(
            list(zip(to_records(update.jobs, Job), update.jobs[KNOWN_AT], strict=True)), update.at
        )
        if update.position is not None and update.position.kept is None:
            # A command built the saved state: no collector has assessed the live jobs.
            changes.submitted, changes.rebuilt = list(self._live.values()), True
        return changes

    def save(self, update: StateUpdate) -> None:
        """Save what changed, if that is this process's task."""
        assert self.features is not None
        position = StatePosition(update.revision, self.features.at, kept=update.at)
        if not self.saves:
            self.features.settle()
            self._position, self._is_consistent = position, True
            return
        with self._store.writing() as writer:
            # Within the write no other process can save. If one has rebuilt the saved state since, keep that.
            expected = None if update.jobs is None else self._position
            if expected is None or valid_position(self._store, self._cluster, self.policy) == expected:
                self.features.save(writer, position)
                self._position, self._is_consistent = position, True

    # --- where the state comes from ---------------------------------------------------------------------

    def _must_reload(self) -> bool:
        """Check whether there is no usable state in memory."""
        if self.features is None or self._position is None or not self._is_consistent:
            return True
        if self.saves:
            return valid_position(self._store, self._cluster, self.policy) != self._position
        # The treatment of fields may have changed, and programs of earlier jobs may have been ingested.
        facts = self._store.clusters().get(self._cluster, ClusterFacts())
        programs = self._store.revision("program", cluster=self._cluster)
        return (facts, programs) != (self.features.facts, self.features.programs.revision)

    def _live_keys(self, state: OnlineFeatures) -> tuple[dict[int, Key], dict[Key, int]]:
        """Read the keys of live jobs by their number in a state, and of outcomes that become known later.

        The state has numbers only; job ids are in the store.
        """
        frames = self._store.scan(
            cluster=self._cluster,
            since=state.at - LONGEST,
            columns=["job_id", "submit", KNOWN_AT],
            where=Missing("outcome") | Between(KNOWN_AT, least=state.at - LATE),
        )
        live: dict[int, Key] = {}
        delayed: dict[Key, int] = {}
        for job_id, submit, known_at in (row for frame in frames for row in frame.iter_rows()):
            if (number := job_key(job_id, submit)) in state.places:
                live[number] = job_id, submit
                if known_at is not None:
                    delayed[job_id, submit] = known_at
        return live, delayed

    def _replace_state(self, update: StateUpdate) -> None:
        self.features, self._position = update.state, update.position
        self._live, self._delayed = update.live, update.delayed
        self._pending = {}
        assert self.features is not None
        for number in self._live:
            if np.isnan(self.features.state.flight[self.features.places[number], L.FL_START]):
                self._pending.setdefault(self._request(number), set()).add(number)

    # --- changed jobs ----------------------------------------------------------------------------------

    def _current(self, changed: pl.DataFrame, delayed: Mapping[Key, int], at: int) -> pl.DataFrame:
        """Read the current records of jobs that changed, or whose outcome has become known."""
        due = [key for key, known_at in delayed.items() if known_at <= at]
        empty = pl.DataFrame(schema={**JOB_SCHEMA, KNOWN_AT: pl.Int64()})
        keys = pl.concat(
            [changed.select("job_id", "submit"), pl.DataFrame(due, schema=_KEY_SCHEMA, orient="row")]
        ).unique()
        if keys.is_empty():
            return empty
        frames = self._store.scan(
            cluster=self._cluster,
            since=min(keys["submit"]),
            job_ids=keys["job_id"].unique().to_list(),
        )
        return pl.concat([empty, *frames]).join(keys, on=["job_id", "submit"], how="semi")

    def _events(self, job: Job, known_at: int | None, at: int) -> Iterable[StateEvent]:
        """Yield the events of a job that the state does not have yet."""
        assert self.features is not None
        number = job_key(job.job_id, job.submit)
        place = self.features.places.get(number)
        if place is None and number in self.features.recent_outcomes:
            if job.outcome is not None:
                # The controller shows an end first; accounting has what the job used some seconds later.
                self.features.correct(job)
            return
        if place is None:
            yield job.submit, SUBMITTED, job
        has_started = place is not None and not np.isnan(self.features.state.flight[place, L.FL_START])
        if job.start is not None and not has_started:
            yield max(job.start, job.submit), STARTED, job
        self._delayed.pop((job.job_id, job.submit), None)
        if known_at is not None and known_at > at:
            self._delayed[job.job_id, job.submit] = known_at
        elif known_at is not None:
            yield max(known_at, job.start or 0, job.submit), ENDED, job

    # --- events ----------------------------------------------------------------------------------------

    def _process_all(self, jobs: list[tuple[Job, int | None]], at: int) -> StateChanges:
        changes, requests = StateChanges(), set[int]()
        events = [event for job, known_at in jobs for event in self._events(job, known_at, at)]
        for event in sorted(events, key=_order):
            request = self._process(changes, event)
            if event[1] == ENDED:
                requests.add(request)
        ended = set(changes.ended)
        changes.submitted = [key for key in changes.submitted if key not in ended]
        for request in requests:
            pending = (self._live[number] for number in self._pending.get(request, ()))
            changes.related += nsmallest(REPRESENTATIVES, pending, key=newest_first)
        return changes

    def _process(self, changes: StateChanges, event: StateEvent) -> int:
        """Apply one event to the state; return the number of its user and request."""
        assert self.features is not None
        moment, change, job = event
        key, number = (job.job_id, job.submit), job_key(job.job_id, job.submit)
        if change == SUBMITTED:
            self.features.submit(job)
            self._live[number] = key
            changes.submitted.append(key)
        request = self._request(number)
        if change == SUBMITTED:
            self._pending.setdefault(request, set()).add(number)
        else:
            self._remove_pending(request, number)
        if change == STARTED:
            self.features.start(job)
            changes.started.append(key)
        elif change == ENDED:
            self.features.ended(job, moment)
            self._live.pop(number, None)
            changes.ended.append(key)
        return request

    def _remove_pending(self, request: int, number: int) -> None:
        numbers = self._pending.get(request, set())
        numbers.discard(number)
        if not numbers:
            self._pending.pop(request, None)

    def _request(self, number: int) -> int:
        assert self.features is not None
        return int(self.features.state.flight_key[self.features.places[number], L.E_USER_REQUEST])


def _is_too_late(state: OnlineFeatures, job: Job, known_at: int | None) -> bool:
    """Check whether a job is new, but its outcome became known too long before the state's time."""
    number = job_key(job.job_id, job.submit)
    is_new = number not in state.places and number not in state.recent_outcomes
    return known_at is not None and is_new and known_at < state.at - LATE


def _is_revoked(state: OnlineFeatures, job: Job) -> bool:
    """Check whether an outcome that the state has is a different one now."""
    number = job_key(job.job_id, job.submit)
    has_ended = number in state.recent_outcomes and number not in state.places
    return has_ended and job.outcome is not None and not state.can_correct(job)


def newest_first(key: Key) -> tuple[int, int, str]:
    """Return a key that sorts the last submitted jobs first, of an array its first task."""
    job_id, submit = key
    return -submit, len(job_id), job_id


def _order(event: StateEvent) -> tuple[int, int, int, int, str]:
    """Return a key that sorts events as `features/batch.py` does."""
    moment, change, job = event
    return moment, change, job.submit, len(job.job_id), job.job_id
