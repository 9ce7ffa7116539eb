"""The kernel one event at a time: what the collector and the stream do as jobs come and go.

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

from forewarn.features import state_store as saved
from forewarn.features.batch import events_of, read_inputs, walk
from forewarn.features.inputs import job_atoms, job_numbers, job_result, node_keys, policed_job
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
        self.landed: dict[int, RecentOutcome] = {}  # jobs whose outcome became known recently, in that order
        self._landed: set[int] = set()  # those of them since the last save
        self._fresh: set[int] = set()  # jobs in flight that were touched since the last save
        self._anew = True  # nothing of this state is saved yet: what the store has is another's
        self._learned: set[int] = set()  # slots of the regression that changed since the last save
        self._place = np.zeros(1, np.int64)
        self._nobody = np.zeros(1, np.int64)

    @classmethod
    def from_history(
        cls, store: Store, cluster: str, policy: FailurePolicy, *, until: int | None = None
    ) -> OnlineFeatures:
        """Start from what the store has seen, walked in batch; no outcome that is known after `until`."""
        facts = store.clusters().get(cluster, ClusterFacts())
        made = cls(cluster, policy, facts, EarlierPrograms.read(store, cluster))
        inputs = read_inputs(store, cluster, policy, phase=Phase.SUBMIT, programs=made.programs)
        places = np.full(inputs.numbers.shape[0], -1, np.int64)
        events = events_of(inputs, until)
        for state, _, _ in walk(made.state, inputs, events, places=places):
            made.state = state
        made.at = int(events.times[-1]) if len(events.times) else 0
        flying = np.flatnonzero(places >= 0)
        for job_id, submit, place in zip(
            inputs.ids["job_id"].gather(flying),
            inputs.ids["submit"].gather(flying),
            places[flying],
            strict=True,
        ):
            made.places[saved.job_key(job_id, submit)] = int(place)
        made._fresh = set(made.places)
        late = np.flatnonzero((events.kinds == KNOWN) & (events.times >= made.at - RECENT))
        ids = inputs.ids[events.jobs[late]].select("job_id", "submit")
        make_keys = keys_of_job.for_rows(len(late))
        for number, (job, moment, key) in enumerate(
            zip(events.jobs[late], events.times[late], ids.iter_rows(), strict=True)
        ):
            keys = np.zeros(L.N_ENTITIES, np.uint64)
            make_keys(inputs.numbers[job], inputs.atoms[job], keys)
            made.landed[saved.job_key(*key)] = RecentOutcome(int(moment), number, keys, inputs.results[job])
        made._landed = set(made.landed)
        made._learned = set(np.flatnonzero(made.state.weight[:, L.W_COUNT]).tolist())
        return made

    @classmethod
    def load(cls, store: Store, cluster: str, policy: FailurePolicy) -> OnlineFeatures:
        """Go on from what was saved; a `StoreError` where nothing fitting was: then `from_history`."""
        saved.check_meta(store, cluster, policy)
        facts = store.clusters().get(cluster, ClusterFacts())
        made = cls(cluster, policy, facts, EarlierPrograms.read(store, cluster))
        made.state, made.places = saved.load_all(store, cluster)
        made.landed = saved.load_landed(store, cluster)
        made.at = mark.at if (mark := saved.read_mark(store, cluster)) else 0
        made._anew = False
        return made

    def submit(self, job: Job) -> Row:
        """A job was submitted: its features as of then."""
        return self._walk(SUBMIT, job.submit, job, emitted=SUBMIT)

    def start(self, job: Job) -> Row:
        """A job started: its features as of then."""
        assert job.start is not None
        self._in_flight(job)
        return self._walk(START, max(job.start, job.submit), job, emitted=START)

    def ended(self, job: Job, known_at: int) -> None:
        """The outcome of a job has become known."""
        self._in_flight(job)
        self._walk(KNOWN, known_at, job, emitted=NEVER)

    def can_correct(self, job: Job) -> bool:
        """Whether what became known of a job after its outcome can be taken in.

        Not where the outcome itself is another one now: then the state has to be made from history.
        """
        before = self.landed[saved.job_key(job.job_id, job.submit)]
        fails = job_result(job, self.policy)[L.R_FAILS]
        return bool(np.array_equal(before.result[L.R_FAILS], fails, equal_nan=True))

    def correct(self, job: Job) -> None:
        """Take in what became known of a job after its outcome: what it used, what killed it."""
        key = saved.job_key(job.job_id, job.submit)
        before, result = self.landed[key], job_result(job, self.policy)
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
        self.landed[key] = replace(before, result=result)
        self._landed.add(key)

    def _landed_after(self, number: int) -> Iterator[RecentOutcome]:
        return takewhile(lambda job: job.number > number, reversed(self.landed.values()))

    def save(self, writer: StoreWriter, mark: StatePosition | None = None) -> None:
        """Save what changed since the last time; the first time, in the place of all that was saved.

        It believes that this write succeeds: where it does not, what is in memory is to be dropped.
        """
        if self._anew:
            saved.clear(writer, self.cluster)
            self._anew = False
        forgotten = self._forgotten()
        saved.save_changes(
            writer,
            self.cluster,
            self.policy,
            self.facts,
            self.programs.revision,
            self.state,
            flying={key: self.places[key] for key in self._fresh},
            landed={key: self.landed[key] for key in self._landed},
            forgotten=forgotten,
            learned=self._learned,
        )
        saved.save_mark(writer, self.cluster, mark or StatePosition(0, self.at))
        self.settle()

    def settle(self) -> None:
        """Forget what only a save needs, and jobs that landed long ago: for who saves, and who never does."""
        for key in self._forgotten():
            del self.landed[key]
        self._fresh, self._landed, self._learned = set(), set(), set()

    def _forgotten(self) -> list[int]:
        """Jobs that landed so long ago that nobody asks.

        In their order, so that of those that are left all that landed later are left too.
        """
        return list(takewhile(lambda key: self.landed[key].known < self.at - RECENT, self.landed))

    def _in_flight(self, job: Job) -> None:
        if saved.job_key(job.job_id, job.submit) not in self.places:
            self._walk(SUBMIT, job.submit, job, emitted=NEVER)

    def _walk(self, kind: int, moment: int, job: Job, *, emitted: int) -> Row:
        key = saved.job_key(job.job_id, job.submit)
        nodes = node_keys(job.nodes) if job.nodes and kind != SUBMIT else _NO_NODES
        numbers, atoms, result = _NO_NUMBERS, _NO_ATOMS, _NO_RESULT
        if kind == KNOWN:
            result = job_result(job, self.policy)
        else:
            asked = policed_job(job, self.facts)
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
            last = next(reversed(self.landed.values()), None)
            self.landed[key] = RecentOutcome(moment, last.number + 1 if last else 0, keys.copy(), result)
            self._landed.add(key)
            self._fresh.discard(key)
        else:
            self.places[key] = int(self._place[0])
            self._fresh.add(key)
        row: Row = out[0]
        return row


def _same_entities(job: RecentOutcome, others: Sequence[RecentOutcome]) -> NDArray[np.int64]:
    """With how many others a job has each of its entities in common."""
    if not others:
        return np.zeros(L.N_ENTITIES, np.int64)
    same: NDArray[np.int64] = (np.array([other.keys for other in others]) == job.keys).sum(axis=0)
    return same
