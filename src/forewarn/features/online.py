"""The kernel run one event at a time, as jobs arrive and end: for the collector and the stream.

`OnlineFeatures` is the one writer of a cluster's online state: it keeps the state in memory, walks each
event with the same compiled `run` as the batch, and saves what changed into the store. `snapshot.py` is for
everybody else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray

from forewarn.features import state_store
from forewarn.features.batch import events_of, read_inputs, walk
from forewarn.features.inputs import job_atoms, job_numbers, job_result, node_keys, treated_job
from forewarn.features.kernel import layout as L  # noqa: N812
from forewarn.features.kernel.entities import keys_of_job
from forewarn.features.kernel.run import run
from forewarn.features.kernel.state import KNOWN, NEVER, START, SUBMIT, new_state, with_room
from forewarn.features.kernel.update import corrected
from forewarn.features.programs import EarlierPrograms
from forewarn.features.state_store import RecentOutcome, StatePosition
from forewarn.job.outcomes import FailurePolicy
from forewarn.job.phase import Phase
from forewarn.job.record import Job
from forewarn.store.base import ClusterFacts, Store, StoreWriter

Row = NDArray[np.float64]
RECENT = 7200  # seconds for which a job whose outcome is known is remembered: more may become known of it
_NO_NUMBERS, _NO_ATOMS = np.full(len(L.NUMBERS), np.nan), np.zeros(len(L.ATOMS), np.uint64)
_NO_RESULT = np.full(len(L.RESULTS), np.nan)
_NO_NODES = np.zeros(0, np.uint64)


class OnlineFeatures:
    """The online state of one cluster, for its one writer.

    Events must come in order of time, as the batch walks them: in one second submits, then starts, then
    outcomes. A job whose submit was not seen is put in flight by its start or outcome.
    """

    def __init__(
        self,
        cluster: str,
        policy: FailurePolicy,
        facts: ClusterFacts | None = None,
        programs: EarlierPrograms | None = None,
    ) -> None:
        self.cluster = cluster
        self.policy = policy
        self.facts = facts or ClusterFacts()
        self.programs = programs or EarlierPrograms()
        self.state = new_state()
        self.at = 0  # when the last event was
        self.places: dict[int, int] = {}  # job to its place among those in flight
        self.recent_outcomes: dict[
            int, RecentOutcome
        ] = {}  # jobs whose outcome became known recently, in that order
        self._changed_recent: set[int] = set()  # those of them since the last save
        self._fresh: set[int] = set()  # jobs in flight that were touched since the last save
        self._never_saved = True  # nothing of this state is saved yet: what the store has is another's
        self._learned: set[int] = set()  # slots of the regression that changed since the last save
        self._place = np.zeros(1, np.int64)
        self._nobody = np.zeros(1, np.int64)

    @classmethod
    def from_history(
        cls, store: Store, cluster: str, policy: FailurePolicy, *, until: int | None = None
    ) -> OnlineFeatures:
        """Start from the stored history, processed in batch, without outcomes known after `until`."""
        facts = store.clusters().get(cluster, ClusterFacts())
        online = cls(cluster, policy, facts, EarlierPrograms.read(store, cluster))
        inputs = read_inputs(store, cluster, policy, phase=Phase.SUBMIT, programs=online.programs)
        places = np.full(inputs.numbers.shape[0], -1, np.int64)
        events = events_of(inputs, until)
        for state, _, _ in walk(online.state, inputs, events, places=places):
            online.state = state
        online.at = int(events.times[-1]) if len(events.times) else 0
        live_among = np.flatnonzero(places >= 0)
        for job_id, submit, place in zip(
            inputs.ids["job_id"].gather(live_among),
            inputs.ids["submit"].gather(live_among),
            places[live_among],
            strict=True,
        ):
            online.places[state_store.job_key(job_id, submit)] = int(place)
        online._fresh = set(online.places)
        late = np.flatnonzero((events.kinds == KNOWN) & (events.times >= online.at - RECENT))
        ids = inputs.ids[events.jobs[late]].select("job_id", "submit")
        make_keys = keys_of_job.for_rows(len(late))
        for number, (job, moment, key) in enumerate(
            zip(events.jobs[late], events.times[late], ids.iter_rows(), strict=True)
        ):
            keys = np.zeros(L.N_ENTITIES, np.uint64)
            make_keys(inputs.numbers[job], inputs.atoms[job], keys)
            online.recent_outcomes[state_store.job_key(*key)] = RecentOutcome(
                int(moment), number, keys, inputs.results[job]
            )
        online._changed_recent = set(online.recent_outcomes)
        online._learned = set(np.flatnonzero(online.state.weight[:, L.W_COUNT]).tolist())
        return online

    @classmethod
    def load(cls, store: Store, cluster: str, policy: FailurePolicy) -> OnlineFeatures:
        """Continue from the saved state; `StoreError` if none fits: then use `from_history`."""
        state_store.check_meta(store, cluster, policy)
        facts = store.clusters().get(cluster, ClusterFacts())
        online = cls(cluster, policy, facts, EarlierPrograms.read(store, cluster))
        online.state, online.places = state_store.load_all(store, cluster)
        online.recent_outcomes = state_store.load_recent_outcomes(store, cluster)
        online.at = mark.at if (mark := state_store.read_position(store, cluster)) else 0
        online._never_saved = False
        return online

    def submit(self, job: Job) -> Row:
        """Process a submit; return the job's features at that moment."""
        return self._walk(SUBMIT, job.submit, job, emitted=SUBMIT)

    def start(self, job: Job) -> Row:
        """Process a start; return the job's features at that moment."""
        assert job.start is not None
        self._in_flight(job)
        return self._walk(START, max(job.start, job.submit), job, emitted=START)

    def ended(self, job: Job, known_at: int) -> None:
        """Process the outcome of a job."""
        self._in_flight(job)
        self._walk(KNOWN, known_at, job, emitted=NEVER)

    def can_correct(self, job: Job) -> bool:
        """Check whether what became known of a job after its outcome can be applied.

        Not where the outcome itself is another one now: then the state must be rebuilt from history.
        """
        before = self.recent_outcomes[state_store.job_key(job.job_id, job.submit)]
        fails = job_result(job, self.policy)[L.R_FAILS]
        return bool(np.array_equal(before.result[L.R_FAILS], fails, equal_nan=True))

    def correct(self, job: Job) -> None:
        """Apply what became known of a job after its outcome: its use, what killed it."""
        key = state_store.job_key(job.job_id, job.submit)
        before, result = self.recent_outcomes[key], job_result(job, self.policy)
        if np.array_equal(before.result, result, equal_nan=True):
            return
        if before.counts:
            later = [job for job in self._landed_after(before.number) if job.counts]
            ended, failed = (
                _same_entities(before, later),
                _same_entities(before, [job for job in later if job.result[L.R_FAILS] > 0]),
            )
            self.state = with_room(self.state, rows=L.N_ENTITIES, rings=0, flights=0)
            corrected(self.state, before.keys, ended, failed, before.result, result)
        self.recent_outcomes[key] = replace(before, result=result)
        self._changed_recent.add(key)

    def _landed_after(self, number: int) -> Iterator[RecentOutcome]:
        return takewhile(lambda job: job.number > number, reversed(self.recent_outcomes.values()))

    def save(self, writer: StoreWriter, mark: StatePosition | None = None) -> None:
        """Save what changed since the last save; the first time, replace all that was state_store.

        It believes that this write succeeds: where it does not, what is in memory is to be dropped.
        """
        if self._never_saved:
            state_store.clear(writer, self.cluster)
            self._never_saved = False
        forgotten = self._forgotten()
        state_store.save_changes(
            writer,
            self.cluster,
            self.policy,
            self.facts,
            self.programs.revision,
            self.state,
            live_among={key: self.places[key] for key in self._fresh},
            recent={key: self.recent_outcomes[key] for key in self._changed_recent},
            forgotten=forgotten,
            learned=self._learned,
        )
        state_store.save_position(writer, self.cluster, mark or StatePosition(0, self.at))
        self.settle()

    def settle(self) -> None:
        """Drop what only a save needs, and jobs that ended long ago, after a save or instead of one."""
        for key in self._forgotten():
            del self.recent_outcomes[key]
        self._fresh, self._changed_recent, self._learned = set(), set(), set()

    def _forgotten(self) -> list[int]:
        """Return jobs that ended so long ago that nobody asks for them.

        In their order, so that all jobs that ended later than a remaining one remain too.
        """
        return list(
            takewhile(lambda key: self.recent_outcomes[key].known < self.at - RECENT, self.recent_outcomes)
        )

    def _in_flight(self, job: Job) -> None:
        if state_store.job_key(job.job_id, job.submit) not in self.places:
            self._walk(SUBMIT, job.submit, job, emitted=NEVER)

    def _walk(self, kind: int, moment: int, job: Job, *, emitted: int) -> Row:
        key = state_store.job_key(job.job_id, job.submit)
        nodes = node_keys(job.nodes) if job.nodes and kind != SUBMIT else _NO_NODES
        numbers, atoms, result = _NO_NUMBERS, _NO_ATOMS, _NO_RESULT
        if kind == KNOWN:
            result = job_result(job, self.policy)
        else:
            asked = treated_job(job, self.facts)
            numbers, atoms = (
                job_numbers(asked, self.facts.timezone, moment),
                job_atoms(asked, self.programs.of(job)),
            )
        self.state = with_room(
            self.state, rows=L.N_ENTITIES + len(nodes), rings=kind == KNOWN, flights=kind == SUBMIT
        )
        self.at = max(self.at, moment)
        self._place[0] = place = self.places.pop(key, -1)
        slots, keys = self.state.flight_slot[place], self.state.flight_key[place]
        out = np.empty((1, L.N_FEATURES))
        run(
            self.state,
            np.array([moment]),
            np.array([kind], np.int8),
            self._nobody,
            numbers[None],
            atoms[None],
            numbers[None],
            atoms[None],
            result[None],
            np.array([0, len(nodes)]),
            nodes,
            self._place,
            emitted,
            out,
        )
        if kind == KNOWN:
            self._learned.update(slots.tolist())
            last = next(reversed(self.recent_outcomes.values()), None)
            self.recent_outcomes[key] = RecentOutcome(
                moment, last.number + 1 if last else 0, keys.copy(), result
            )
            self._changed_recent.add(key)
            self._fresh.discard(key)
        else:
            self.places[key] = int(self._place[0])
            self._fresh.add(key)
        row: Row = out[0]
        return row


def _same_entities(job: RecentOutcome, others: Sequence[RecentOutcome]) -> NDArray[np.int64]:
    """Count the other jobs with which a job shares each of its entities."""
    if not others:
        return np.zeros(L.N_ENTITIES, np.int64)
    same: NDArray[np.int64] = (np.array([other.keys for other in others]) == job.keys).sum(axis=0)
    return same
