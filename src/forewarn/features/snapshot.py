"""Features of jobs at one moment, for every reader of the online state.

A job can be asked about as if it were submitted this moment, and, where the state knows it as in flight, as
if it started this moment: one that runs already with the wait that it had. Either way all that has become
known since its real submit counts. A short-lived process reads the few rows that its jobs need from the
store (`SavedSnapshot`), a long-lived one has the whole state in memory (`LiveSnapshot`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from forewarn.features import state_store
from forewarn.features.batch import event_of
from forewarn.features.inputs import atoms_of_jobs, node_keys, numbers_of_jobs, treated_jobs
from forewarn.features.kernel import layout as L  # noqa: N812
from forewarn.features.kernel.entities import keys_of_job
from forewarn.features.kernel.peek import look, scratch_state
from forewarn.features.kernel.state import SUBMIT, Floats, Hashes, Ints, State, sparse_weights
from forewarn.features.online import OnlineFeatures
from forewarn.features.programs import EarlierPrograms
from forewarn.job.outcomes import FailurePolicy
from forewarn.job.phase import Phase
from forewarn.job.record import Job
from forewarn.store.base import ClusterFacts, Store

_NO_NODES = np.zeros(0, np.uint64)
KEPT_UP = 900  # seconds from a collector's last round in which nobody else needs to see to the state
SKEW = 60  # seconds by which its clock may be ahead


@dataclass(frozen=True, slots=True)
class RequestedJobs:
    """Jobs as the kernel reads them, at a moment."""

    at: int
    keys: list[int]  # of each job among those in flight
    kinds: NDArray[np.int8]  # SUBMIT or START
    numbers: Floats
    atoms: Hashes
    node_first: Ints
    nodes: Hashes

    def __len__(self) -> int:
        return len(self.keys)


class Snapshot(ABC):
    """The features of a cluster's jobs at one moment, which lies after all that the state has processed."""

    def __init__(
        self,
        cluster: str,
        at: int,
        facts: ClusterFacts,
        programs: EarlierPrograms,
        known_until: int,
        own: bool,
    ) -> None:
        self.cluster, self.facts = cluster, facts
        self.requested_at = at  # which may lie before: clocks disagree
        self.at = max(at, known_until)
        self.known_until = known_until
        self._programs = programs
        self._unknown = list(L.OF_OTHERS) if own else []

    @property
    @abstractmethod
    def cluster_state(self) -> Floats:
        """Return the cluster's own row."""

    @abstractmethod
    def in_flight(self, jobs: Sequence[Job]) -> list[bool]:
        """Check which jobs the state knows as live: these can be assessed as at a start."""

    @abstractmethod
    def _look(self, asked: RequestedJobs) -> Floats:
        """Compute the features of the jobs."""

    @property
    def ended(self) -> int:
        """The number of ended jobs of the cluster that the policy counts."""
        return int(self.cluster_state[L.C_ENDED])

    @property
    def recent_failure_rate(self) -> float | None:
        """The failure rate of the cluster's last hundred or so ended jobs."""
        state = self.cluster_state
        return float(state[L.C_S100] / state[L.C_W100]) if state[L.C_W100] > 0 else None

    @property
    def record(self) -> Floats:
        """The online regression's own record on ended jobs: jobs, log odds, failures."""
        return self.cluster_state[L.C_RECORD : L.C_RECORD + 3 * L.RECORD_BINS].reshape(3, L.RECORD_BINS)

    def features(self, jobs: Sequence[Job], phase: str) -> Floats:
        """Compute all features of some jobs; those known only at start are missing at `submit`.

        They are missing too where the state does not know the job as in flight, or no longer.
        """
        return self.features_as_read(treated_jobs(jobs, self.facts), phase)

    def features_as_read(self, jobs: Sequence[Job], phase: str) -> Floats:
        """Compute the features of jobs whose field treatments are already applied (`treated_jobs`)."""
        values = self._look(self._asked(jobs, Phase(phase)))
        if self._unknown:
            values[:, self._unknown] = np.nan
        return values

    def _asked(self, jobs: Sequence[Job], phase: Phase) -> RequestedJobs:
        numbers = numbers_of_jobs(jobs, self.facts.timezone, self.at)
        # As in the rows of jobs that wait from which models learn.
        numbers[np.ix_([job.start is None for job in jobs], L.GIVEN)] = np.nan
        # As of its own submit: by now its own run may be recorded, from which no model has learned.
        atoms = atoms_of_jobs(jobs, [self._programs.of(job) for job in jobs])
        with_nodes = phase.reaches(Phase.START)
        nodes = [node_keys(job.nodes) if with_nodes and job.nodes else _NO_NODES for job in jobs]
        return RequestedJobs(
            self.at,
            [state_store.job_key(job.job_id, job.submit) for job in jobs],
            np.full(len(jobs), event_of(phase), np.int8),
            numbers,
            atoms,
            np.cumsum([0, *(len(keys) for keys in nodes)]),
            np.concatenate([_NO_NODES, *nodes]),
        )


class LiveSnapshot(Snapshot):
    """A snapshot of the state in memory: of its one writer, or of a process that follows it.

    As long as it is used the state must not be changed: its owner sees to that.
    """

    def __init__(self, state: OnlineFeatures, at: int) -> None:
        super().__init__(state.cluster, at, state.facts, state.programs, state.at, own=False)
        self._online = state

    @property
    def cluster_state(self) -> Floats:
        """Return the cluster's own row."""
        return self._online.state.cluster

    def in_flight(self, jobs: Sequence[Job]) -> list[bool]:
        """Look the jobs up in the state's own list."""
        return [state_store.job_key(job.job_id, job.submit) in self._online.places for job in jobs]

    def _look(self, asked: RequestedJobs) -> Floats:
        places = np.array([self._online.places.get(key, -1) for key in asked.keys], np.int64)
        return _seen_from(self._online.state, places, asked, look)[0]


class SavedSnapshot(Snapshot):
    """A snapshot of the saved state that reads only the rows of the jobs' keys. For one thread."""

    def __init__(
        self,
        store: Store,
        cluster: str,
        at: int,
        policy: FailurePolicy,
        *,
        own: bool = False,
        programs: EarlierPrograms | None = None,
    ) -> None:
        """Read the saved state; `own`: the store holds one person's jobs, which do not describe the cluster.

        `programs`, where whoever asks has read them already.
        """
        state_store.check_meta(store, cluster, policy)
        mark = state_store.read_position(store, cluster)
        facts = store.clusters().get(cluster, ClusterFacts())
        programs = programs or EarlierPrograms.read(store, cluster)
        super().__init__(cluster, at, facts, programs, mark.at if mark else 0, own)
        self._store = store
        self._weights = sparse_weights()  # one table for all jobs

    @cached_property
    def cluster_state(self) -> Floats:
        """Return the cluster's own row."""
        return state_store.cluster_state(self._store, self.cluster)

    def in_flight(self, jobs: Sequence[Job]) -> list[bool]:
        """Look the jobs up in the saved state."""
        keys = [state_store.job_key(job.job_id, job.submit) for job in jobs]
        live_among = state_store.live_among(self._store, self.cluster, keys)
        return [key in live_among for key in keys]

    def _look(self, asked: RequestedJobs) -> Floats:
        keys = np.zeros((len(asked), L.N_ENTITIES), np.uint64)
        make_keys = keys_of_job.for_rows(len(asked))
        for numbers, atoms, own in zip(asked.numbers, asked.atoms, keys, strict=True):
            make_keys(numbers, atoms, own)
        state, live_among = state_store.load_some(
            self._store, self.cluster, keys, asked.nodes, asked.keys, self._weights
        )
        places = np.array([live_among.get(key, -1) for key in asked.keys], np.int64)
        quickest = look.for_rows(len(asked))
        # Which weights are needed is known only when the entities have been looked at.
        _, slots = _seen_from(state, places, asked, quickest)
        state_store.load_weights(self._store, self.cluster, state, slots)
        return _seen_from(state, places, asked, quickest)[0]


def _seen_from(
    state: State, places: Ints, asked: RequestedJobs, look: Callable[..., None]
) -> tuple[Floats, NDArray[np.int32]]:
    """Compute the features of jobs in a state, and the slots of their keys in the regression."""
    # One that has just ended, or whose submit was never seen, is asked about as at its submit.
    kinds = np.where(places >= 0, asked.kinds, np.int8(SUBMIT))
    out, slots = np.empty((len(asked), L.N_FEATURES)), np.zeros((len(asked), L.N_KEYS), np.int32)
    most_nodes = int(np.diff(asked.node_first).max(initial=0))
    look(
        state,
        scratch_state(state.weight, most_nodes),
        *(
            int(asked.at),
            kinds,
            places,
            asked.numbers,
            asked.atoms,
            asked.node_first,
            asked.nodes,
            slots,
            out,
        ),
    )
    return out, slots


def is_current(store: Store, cluster: str, policy: FailurePolicy) -> bool:
    """Check whether the saved state has processed everything in the store."""
    mark = state_store.valid_position(store, cluster, policy)
    return mark is not None and mark.revision == store.revision(cluster=cluster)


def is_collected(store: Store, cluster: str, policy: FailurePolicy, at: int) -> bool:
    """Check whether a collector keeps the saved state up to date."""
    mark = state_store.valid_position(store, cluster, policy)
    # A mark from the future says nothing: a clock was set back, or the moment asked about is long past.
    return mark is not None and mark.kept is not None and -SKEW <= at - mark.kept <= KEPT_UP


def is_maintained(store: Store, cluster: str, policy: FailurePolicy, at: int) -> bool:
    """Check whether the saved state has processed everything in the store, or a collector soon will."""
    return is_collected(store, cluster, policy, at) or is_current(store, cluster, policy)


def bring_up_to_date(store: Store, cluster: str, policy: FailurePolicy) -> None:
    """Bring the saved state up to date, by processing the whole history if it is not."""
    if is_current(store, cluster, policy):
        return
    revision = store.revision(cluster=cluster)  # before the walk: what comes meanwhile is not marked as known
    state = OnlineFeatures.from_history(store, cluster, policy)
    with store.writing() as writer:
        state.save(writer, state_store.StatePosition(revision, state.at))
