"""What is knowable of a job now, from the saved online state: only the rows that its keys name are read.

For everybody but the one writer of that state. A job can be asked about as if it were submitted this moment,
and, where the state knows it as in flight, as if it started this moment: one that runs already with the wait
that it had. Either way all that has become known since its real submit counts.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from forewarn.features import saved
from forewarn.features.batch import event_of
from forewarn.features.inputs import job_atoms, job_numbers, node_keys, policed_job
from forewarn.features.kernel import layout as L  # noqa: N812
from forewarn.features.kernel.entities import entity_keys
from forewarn.features.kernel.run import run
from forewarn.features.kernel.state import State, new_weights, with_room
from forewarn.features.kernel.update import not_started, withdrawn
from forewarn.features.online import OnlineFeatures
from forewarn.features.programs import EarlierPrograms
from forewarn.job.outcomes import Policy
from forewarn.job.phase import Phase
from forewarn.job.record import Job
from forewarn.store.base import ClusterFacts, Store

Row = NDArray[np.float64]
_NO_RESULT = np.full((1, len(L.RESULTS)), np.nan)
_NO_NODES = np.zeros(0, np.uint64)
KEPT_UP = 900  # seconds from a collector's last round in which nobody else needs to see to the state
SKEW = 60  # seconds by which its clock may be ahead


class Present:
    """The features of a cluster's jobs as of one moment, which lies after all that the state knows.

    For one thread at a time.
    """

    def __init__(
        self,
        store: Store,
        cluster: str,
        at: int,
        policy: Policy,
        *,
        own: bool = False,
        programs: EarlierPrograms | None = None,
    ) -> None:
        """`own`: the store holds one person's jobs only, which tell nothing of the cluster as a whole.

        `programs`, where whoever asks has read them already.
        """
        saved.check_meta(store, cluster, policy)
        self._store, self.cluster, self.policy = store, cluster, policy
        self.facts = store.clusters().get(cluster, ClusterFacts())
        self.mark = saved.read_mark(store, cluster)
        self.asked_at = at  # which may lie before: clocks disagree
        self.at = max(at, self.mark.at) if self.mark else at
        self._programs = programs or EarlierPrograms.read(store, cluster)
        self._unknown = L.OF_OTHERS if own else ()
        self._weights = new_weights()  # one table for all jobs

    @property
    def recent_failure_rate(self) -> float | None:
        """Of the cluster's last hundred jobs or so that ended."""
        state = saved.cluster_state(self._store, self.cluster)
        return float(state[L.C_S100] / state[L.C_W100]) if state[L.C_W100] > 0 else None

    @property
    def ended(self) -> int:
        """How many jobs of the cluster have ended, of those that the policy counts."""
        return int(saved.cluster_state(self._store, self.cluster)[L.C_ENDED])

    @property
    def record(self) -> Row:
        """What the online regression said of ended jobs, and what came of them: jobs, log odds, failures."""
        state = saved.cluster_state(self._store, self.cluster)
        return state[L.C_RECORD : L.C_RECORD + 3 * L.RECORD_BINS].reshape(3, L.RECORD_BINS)

    def is_in_flight(self, job: Job) -> bool:
        """Whether the state knows it as pending or running: then it can be asked about as at its start."""
        return saved.flight_of(self._store, self.cluster, job.job_id, job.submit) is not None

    def features(self, job: Job, phase: str) -> Row:
        """All features of one job; those that only a start has are missing at `submit`.

        They are missing too where the state does not know the job as in flight, or no longer.
        """
        phase, asked = Phase(phase), policed_job(job, self.facts)
        numbers = job_numbers(asked, self.facts.timezone, self.at)
        # As of its own submit: by now its own run may be recorded, from which no model has learnt.
        atoms = job_atoms(asked, self._programs.of(job))
        if job.start is None:
            numbers[list(L.GIVEN)] = np.nan  # as in the rows of jobs that wait from which models learn
        keys = np.zeros(L.N_ENTITIES, np.uint64)
        entity_keys(numbers, atoms, keys)
        flight = saved.flight_of(self._store, self.cluster, job.job_id, job.submit)
        if flight is None:
            phase = Phase.SUBMIT  # it has just ended, or its submit was never seen
        nodes = node_keys(job.nodes) if job.nodes and phase.reaches(Phase.START) else _NO_NODES
        state = saved.load_entities(self._store, self.cluster, keys, nodes, flight, self._weights)
        if flight is not None:
            waited = _waiting_again(state, self.at)
            if phase == Phase.SUBMIT:
                withdrawn(state, 0)
            else:
                state.flight[0, L.FL_SUBMIT] = self.at - waited
        saved.load_weights(self._store, self.cluster, state, keys, numbers, self.at)
        kind = event_of(phase)
        out = np.full((1, L.N_FEATURES), np.nan)
        run(
            with_room(state, rows=L.N_ENTITIES + len(nodes), rings=0, flights=1),
            np.array([self.at]),
            np.array([kind], np.int8),
            np.zeros(1, np.int64),
            numbers[None],
            atoms[None],
            numbers[None],
            atoms[None],
            _NO_RESULT,
            np.array([0, len(nodes)]),
            nodes,
            np.zeros(1, np.int64),
            kind,
            out,
        )
        row: Row = out[0]
        row[list(self._unknown)] = np.nan
        return row


def _waiting_again(state: State, at: int) -> float:
    """A job in flight, at place 0, as one that waits; how long it has waited. Its run is no wait."""
    submit, start = state.flight[0, [L.FL_SUBMIT, L.FL_START]]
    if np.isnan(start):
        return float(at - submit)
    not_started(state, 0)
    return float(start - submit)


def is_current(store: Store, cluster: str, policy: Policy) -> bool:
    """Whether the saved state knows all that the store does."""
    mark = saved.fitting_mark(store, cluster, policy)
    return mark is not None and mark.revision == store.revision(cluster=cluster)


def is_collected(store: Store, cluster: str, policy: Policy, at: int) -> bool:
    """Whether a collector sees to the saved state."""
    mark = saved.fitting_mark(store, cluster, policy)
    # A mark from the future says nothing: a clock was set back, or the moment asked about is long past.
    return mark is not None and mark.kept is not None and -SKEW <= at - mark.kept <= KEPT_UP


def is_kept_up(store: Store, cluster: str, policy: Policy, at: int) -> bool:
    """Whether the saved state knows all that the store does, or will soon: a collector sees to it."""
    return is_collected(store, cluster, policy, at) or is_current(store, cluster, policy)


def bring_up_to_date(store: Store, cluster: str, policy: Policy) -> None:
    """Make the saved state know all that the store does, by walking the whole history where it does not."""
    if is_current(store, cluster, policy):
        return
    revision = store.revision(cluster=cluster)  # before the walk: what comes meanwhile is not marked as known
    state = OnlineFeatures.from_history(store, cluster, policy)
    with store.writing() as writer:
        state.save(writer, saved.Mark(revision, state.at))
