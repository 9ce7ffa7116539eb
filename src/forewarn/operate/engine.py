"""What a long-lived process knows of one cluster, in memory: many threads ask, one follows the store.

The online state, the models that serve, nodes and partitions with their health, and users' earlier jobs. An
answer is of one state of all this: while somebody asks, nothing of it changes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from time import time

from forewarn.assess.assessment import Assessment
from forewarn.assess.assessor import Assessor
from forewarn.assess.champions import Champions
from forewarn.assess.machine import Machine
from forewarn.errors import StoreError
from forewarn.features.snapshot import LiveSnapshot
from forewarn.job.outcomes import POLICIES, FailurePolicy
from forewarn.job.record import Job
from forewarn.learn.registry.serving import Serving
from forewarn.operate.live_user_histories import LiveUserHistories
from forewarn.operate.online_state import FollowedState, Key, StateChanges, StateStep
from forewarn.operate.read_write_lock import ReadWriteLock
from forewarn.store.base import ClusterFacts, Store

log = logging.getLogger(__name__)
FOLLOW_EVERY = 1.0  # seconds for which what is known need not be held against the store again
AFTER_TROUBLE = 10.0  # the same where the store could not be followed
# What a machine was read from: revisions of nodes and partitions, when, and the health that was kept.
MachineRead = tuple[int, int, int, str | None]
MACHINE_EVERY = 600  # seconds between looks at nodes, partitions and their health where nothing changed


class Engine:
    """One cluster as a long-lived process knows it.

    `follow` takes up what is new: new observations, a model that was promoted, nodes that were judged anew.
    `saves` makes this process the one that saves the online state: it has claimed that (`Store.claim`).
    """

    def __init__(
        self,
        store: Store,
        cluster: str,
        serving: Serving,
        *,
        saves: bool = False,
        clock: Callable[[], float] = time,
    ) -> None:
        self.cluster = cluster
        self._store, self._clock = store, clock
        self.saves = saves
        self._lock = ReadWriteLock()
        self._following = Lock()
        self._next_follow = 0.0
        self._serving = serving
        self._champions: Champions | None = None
        self._state: FollowedState | None = None
        self._pasts: LiveUserHistories | None = None
        self._machine: Machine | None = None
        self._machine_of: MachineRead | None = None

    @property
    def policy(self) -> FailurePolicy:
        """What counts as failure to the models that serve."""
        return self._state.policy if self._state else POLICIES["wasted"]

    @property
    def waiting(self) -> list[Key]:
        """The jobs that wait."""
        return self._state.waiting if self._state else []

    def follow(self, at: int | None = None) -> StateChanges:
        """Take up what is new in the store and in the models; what happened to jobs since the last time."""
        moment = int(self._clock()) if at is None else at
        with self._following:
            before = self._champions
            champions = before.refreshed() if before else Champions(self.cluster, self._serving)
            policy = champions.policy
            followed = self._state
            if followed is None or followed.policy != policy:
                followed = FollowedState(self._store, self.cluster, policy, saves=self.saves)
            followed.saves = self.saves
            step = followed.prepare(moment)
            pasts, machine = self._followed_pasts(step, moment), self._followed_machine(moment)
            with self._lock.writing():
                happened = followed.apply(step)
                self._champions, self._state, self._pasts = champions, followed, pasts
                self._machine_of, self._machine = machine
            followed.save(step)
            self._next_follow = self._clock() + FOLLOW_EVERY
        return happened

    def follow_soon(self) -> None:
        """Follow, unless that was done a moment ago, or another thread is at it.

        What is known already is served on where the store cannot be followed just now.
        """
        if self._state is None:
            self.follow()
            return
        if self._clock() < self._next_follow or self._following.locked():
            return
        try:
            self.follow()
        except Exception as error:
            log.warning("%s cannot be followed, what is known is served on: %s", self.cluster, error)
            self._next_follow = self._clock() + AFTER_TROUBLE

    @contextmanager
    def asking(self, at: int | None = None) -> Iterator[Assessor]:
        """An assessor as of a moment, by default now. Nothing that it knows changes within the block."""
        if self._state is None:
            self.follow()
        with self._lock.reading():
            followed, champions, pasts, machine = self._state, self._champions, self._pasts, self._machine
            if not (followed and followed.state and champions and pasts and machine):
                raise StoreError(f"nothing is known of {self.cluster} yet")
            moment = int(self._clock()) if at is None else at
            snapshot = LiveSnapshot(followed.state, moment)
            yield Assessor(
                snapshot,
                champions,
                machine,
                pasts,
                lambda job, limit, smaller: pasts.waits(job, snapshot.at, limit, smaller),
            )

    def assess(self, job: Job, *, at: int | None = None) -> Assessment:
        """Assess one job as a whole, with reasons, similar jobs and advice."""
        with self.asking(at) as assessor:
            return assessor.assess(job)

    def assess_all(self, jobs: Sequence[Job], *, at: int | None = None) -> list[Assessment]:
        """Assess each of many jobs in brief."""
        with self.asking(at) as assessor:
            return assessor.assess_all(jobs)

    def _followed_pasts(self, step: StateStep, at: int) -> LiveUserHistories:
        pasts = self._pasts
        if pasts is None or step.jobs is None or step.state is not None or pasts.is_worn(at):
            facts = self._store.clusters().get(self.cluster, ClusterFacts())
            return LiveUserHistories.read(self._store, self.cluster, at, facts)
        return pasts.changed(step.jobs)

    def _followed_machine(self, at: int) -> tuple[MachineRead, Machine]:
        """The nodes and partitions, read again where they changed, or were judged anew, or it is long ago."""
        store, cluster = self._store, self.cluster
        found = (
            store.revision("node", cluster=cluster),
            store.revision("partition", cluster=cluster),
            at // MACHINE_EVERY,
            store.cursor(f"health {cluster}"),
        )
        if self._machine is not None and found == self._machine_of:
            return found, self._machine
        machine = Machine(store, cluster, at)
        machine.load()
        return found, machine
