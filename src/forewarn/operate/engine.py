"""The engine of a long-lived process: one cluster in memory, which many threads query and one updates.

It holds the online state, the models that serve, nodes and partitions with their health, and users' earlier
jobs. Each answer comes from one consistent state of all these: nothing changes while a query runs.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from time import time

from forewarn.assess.assessment import Assessment
from forewarn.assess.assessor import Assessor
from forewarn.assess.champions import Champions
from forewarn.assess.machine import Machine
from forewarn.assess.routing import online_reach
from forewarn.errors import StoreError
from forewarn.features.snapshot import LiveSnapshot
from forewarn.job.outcomes import POLICIES, FailurePolicy
from forewarn.job.record import Job
from forewarn.learn.registry.serving import Serving
from forewarn.operate.live_user_histories import LiveUserHistories
from forewarn.operate.online_state import FollowedState, Key, StateChanges, StateUpdate
from forewarn.operate.read_write_lock import ReadWriteLock
from forewarn.store.base import ClusterFacts, Store

log = logging.getLogger(__name__)
FOLLOW_EVERY = 1.0  # seconds between updates from the store
AFTER_TROUBLE = 10.0  # seconds until the next update after one that failed
# The version of a machine: revisions of nodes and partitions, the time slot, and the cached health.
MachineVersion = tuple[int, int, int, str | None]
MACHINE_EVERY = 600  # seconds after which nodes, partitions and their health are read though nothing changed


class Engine:
    """One cluster in the memory of a long-lived process.

    `follow` updates it with new observations, promoted models and new node health. With `saves`, this process
    writes the online state to the store; it must hold the claim for that (`Store.claim`).
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
        self.has_follower = False  # a thread of this process calls `follow`: callers need not
        self._lock = ReadWriteLock()
        self._following = Lock()
        self._next_follow = 0.0
        self._serving = serving
        self._champions: Champions | None = None
        self._state: FollowedState | None = None
        self._histories: LiveUserHistories | None = None
        self._machine: Machine | None = None
        self._machine_version: MachineVersion | None = None

    @property
    def policy(self) -> FailurePolicy:
        """The failure policy of the models that serve."""
        return self._state.policy if self._state else POLICIES["wasted"]

    @property
    def pending(self) -> list[Key]:
        """The pending jobs."""
        with self._lock.reading():
            return self._state.pending if self._state else []

    @property
    def live(self) -> list[Key]:
        """The pending and running jobs."""
        with self._lock.reading():
            return self._state.live if self._state else []

    @property
    def answers_by(self) -> str:
        """What answers for jobs: models, thresholds, what the history allows. Another text: assess again."""
        with self._lock.reading():
            if not (self._champions and self._state and self._state.features):
                return ""
            reach = online_reach(LiveSnapshot(self._state.features, 0).ended)
            return json.dumps([self._champions.identity, reach])

    def follow(self, at: int | None = None) -> StateChanges:
        """Update from the store and the registry; return what changed for jobs since the last update."""
        at = int(self._clock()) if at is None else at
        with self._following:
            before = self._champions
            champions = before.refreshed() if before else Champions(self.cluster, self._serving)
            policy = champions.policy
            state = self._state
            if state is None or state.policy != policy:
                state = FollowedState(self._store, self.cluster, policy, saves=self.saves)
            state.saves = self.saves
            update = state.prepare(at)
            histories = self._updated_histories(update, at)
            version, machine = self._updated_machine(at)
            with self._lock.writing():  # only here do queries wait: all reading was done before
                changes = state.apply(update)
                self._champions, self._state, self._histories = champions, state, histories
                self._machine_version, self._machine = version, machine
            state.save(update)
            self._next_follow = self._clock() + FOLLOW_EVERY
        return changes

    def follow_models(self) -> None:
        """Use promoted models and new thresholds; jobs, nodes and their health wait for `follow`.

        Models of another failure policy wait too: their features must be computed first.
        """
        with self._following:
            if self._champions is None or self._state is None:
                return
            champions = self._champions.refreshed()
            if champions.policy == self._state.policy:
                with self._lock.writing():
                    self._champions = champions

    def follow_soon(self) -> None:
        """Follow, unless that was done within the last second or another thread is doing it.

        If the store cannot be read just now, continue with what is in memory.
        """
        if self._state is None:
            self.follow()
            return
        if self.has_follower or self._clock() < self._next_follow or self._following.locked():
            return
        try:
            self.follow()
        except Exception as error:
            log.warning("%s: cannot read the store, answers come from memory: %s", self.cluster, error)
            self._next_follow = self._clock() + AFTER_TROUBLE

    @contextmanager
    def open_assessor(self, at: int | None = None) -> Iterator[Assessor]:
        """Open an assessor at a moment, by default now. Its data does not change within the block."""
        if self._state is None:
            self.follow()
        with self._lock.reading():
            state, champions = self._state, self._champions
            histories, machine = self._histories, self._machine
            if not (state and state.features and champions and histories and machine):
                raise StoreError(f"{self.cluster}: the engine has not read the store yet")
            snapshot = LiveSnapshot(state.features, int(self._clock()) if at is None else at)
            yield Assessor(
                snapshot,
                champions,
                machine,
                histories,
                lambda job, limit, smaller: histories.waits(job, snapshot.at, limit, smaller),
            )

    def assess(self, job: Job, *, at: int | None = None) -> Assessment:
        """Assess one job in full, with reasons, similar jobs and advice."""
        with self.open_assessor(at) as assessor:
            return assessor.assess(job)

    def assess_all(self, jobs: Sequence[Job], *, at: int | None = None) -> list[Assessment]:
        """Assess many jobs in brief."""
        with self.open_assessor(at) as assessor:
            return assessor.assess_all(jobs)

    def _updated_histories(self, update: StateUpdate, at: int) -> LiveUserHistories:
        histories = self._histories
        if histories is None or update.jobs is None or update.state is not None or histories.is_outdated(at):
            facts = self._store.clusters().get(self.cluster, ClusterFacts())
            return LiveUserHistories.read(self._store, self.cluster, at, facts)
        return histories.updated(update.jobs)

    def _updated_machine(self, at: int) -> tuple[MachineVersion, Machine]:
        """Read nodes, partitions and their health again if they changed, or after `MACHINE_EVERY` seconds."""
        store, cluster = self._store, self.cluster
        version = (
            store.revision("node", cluster=cluster),
            store.revision("partition", cluster=cluster),
            at // MACHINE_EVERY,
            store.cursor(f"health {cluster}"),
        )
        if self._machine is not None and version == self._machine_version:
            return version, self._machine
        machine = Machine(store, cluster, at)
        machine.load()
        return version, machine
