"""The kernel run over a whole history: events in order of time, features out in chunks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from forewarn.features.inputs import (
    COLUMNS,
    RESULT_COLUMNS,
    Inputs,
    atoms_of,
    nodes_of,
    numbers_of,
    results_of,
    treated,
)
from forewarn.features.kernel import layout as L  # noqa: N812
from forewarn.features.kernel.run import run
from forewarn.features.kernel.state import KNOWN, NEVER, START, SUBMIT, WAITING, State, with_room
from forewarn.features.programs import EarlierPrograms
from forewarn.job.columns import JOB_SCHEMA
from forewarn.job.outcomes import FailurePolicy
from forewarn.job.phase import Phase
from forewarn.store.base import ClusterFacts, Store, View

_CHUNK = 50_000  # events walked at a time
# Of jobs that wait, those that a model of starts learns from as they waited, not as they started. Half of
# them costs ranking at start (Graham: ROC-AUC .946 instead of .950), an eighth ranking of jobs that wait
# (.876 instead of .880): docs/measurements.md#pending-jobs-running-jobs-and-login-nodes.
LOOKED_AT = 0.25
_IDS = ("cluster", "job_id", "submit")
# Of jobs: by their submit, in one second as the ids count, 9 before 10.
ORDER = (pl.col("submit"), pl.col("job_id").str.len_chars(), pl.col("job_id"))
Jobs = Mapping[View, pl.DataFrame]  # row by row the same jobs, as they were known at each of some moments


def event_of(phase: Phase) -> int:
    """Return the kind of event just before which the features of a phase are computed."""
    return SUBMIT if phase.elapsed is None else START


@dataclass(frozen=True, slots=True)
class Events:
    """Events in order of time. Within one second: submits, then starts, then outcomes.

    So an outcome counts for what comes strictly after it; two events of one kind keep the jobs' order.
    """

    times: NDArray[np.int64]
    kinds: NDArray[np.int8]
    jobs: NDArray[np.int64]


def read_inputs(
    store: Store, cluster: str, policy: FailurePolicy, *, phase: str, programs: EarlierPrograms | None = None
) -> Inputs:
    """Read what the features need of a cluster's history, as seen at each job's own moment."""
    facts = store.clusters().get(cluster, ClusterFacts())
    programs = programs or EarlierPrograms.read(store, cluster)
    return inputs_of(store.scan_views(columns_at(Phase(phase)), cluster=cluster), facts, policy, programs)


def columns_at(phase: Phase) -> dict[View, tuple[str, ...]]:
    """Return the views in which the jobs of a phase are read, and the fields read in each."""
    columns: dict[View, tuple[str, ...]] = {"submit": COLUMNS, "now": RESULT_COLUMNS}
    return columns | ({"start": COLUMNS} if phase.reaches(Phase.START) else {})


def inputs_of(
    frames: Iterable[Jobs],
    facts: ClusterFacts,
    policy: FailurePolicy,
    programs: EarlierPrograms | None = None,
) -> Inputs:
    """Convert consecutive frames of jobs into arrays."""
    arrays = InputArrays(facts, policy)
    for jobs in ordered(frames):
        arrays.add(as_read(jobs, facts, programs))
    return arrays.joined()


def as_read(jobs: Jobs, facts: ClusterFacts, programs: EarlierPrograms | None = None) -> Jobs:
    """Apply the cluster's field treatments to jobs, and add the program that earlier jobs of the name ran.

    How they ended stays as it is recorded.
    """
    programs = programs or EarlierPrograms()
    return {
        view: frame if view == "now" else treated(programs.with_column(frame), facts)
        for view, frame in jobs.items()
    }


class InputArrays:
    """A builder of `Inputs` from frames of jobs that arrive in order, already treated by `as_read`."""

    def __init__(self, facts: ClusterFacts, policy: FailurePolicy) -> None:
        self._facts, self._policy = facts, policy
        self._ids: list[pl.DataFrame] = []
        self._arrays: dict[str, list[NDArray[Any]]] = {"node_first": [np.zeros(1, np.int64)]}
        self._nodes = 0

    def add(self, jobs: Jobs) -> None:
        """Add jobs; either all of them as of their start too, or none."""
        asked, ended = jobs["submit"], jobs["now"]
        self._ids.append(asked.select(_IDS))
        self._put("numbers", numbers_of(asked, self._facts.timezone))
        self._put("atoms", atoms_of(asked))
        if (started := jobs.get("start")) is not None:
            self._put("numbers_at_start", numbers_of(started, self._facts.timezone, "start"))
            self._put("atoms_at_start", atoms_of(started))
        self._put("start", ended["start"].fill_null(-1).to_numpy())
        self._put("known", ended["known_at"].fill_null(-1).to_numpy())
        self._put("results", results_of(ended, self._policy))
        # Nodes too are of the end: at submit there are none, and no event before the start asks for them.
        first, keys = nodes_of(ended["nodes"])
        self._put("node_first", first[1:] + self._nodes)
        self._put("node_keys", keys)
        self._nodes += len(keys)

    def joined(self) -> Inputs:
        """Return all added jobs as `Inputs`."""
        if not self._ids:
            names = {*COLUMNS, *RESULT_COLUMNS}
            empty = pl.DataFrame(schema={name: JOB_SCHEMA.get(name, pl.Int64()) for name in names})
            self.add({"submit": empty, "now": empty})
        # Each list is let go of once it is one array: together they are as large as the history.
        arrays = {name: np.concatenate(self._arrays.pop(name)) for name in [*self._arrays]}
        arrays.setdefault("numbers_at_start", arrays["numbers"])
        arrays.setdefault("atoms_at_start", arrays["atoms"])
        return Inputs(ids=pl.concat(self._ids), **arrays)

    def _put(self, name: str, array: NDArray[Any]) -> None:
        self._arrays.setdefault(name, []).append(array)


def ordered(frames: Iterable[Jobs]) -> Iterator[Jobs]:
    """Sort consecutive frames of jobs by `ORDER`."""
    held: list[Jobs] = []  # the last second so far, which may go on in the next frame
    for jobs in frames:
        held.append(jobs)
        submit = jobs["submit"]["submit"]
        if submit.len() and submit[0] != submit[-1]:
            joined = _sorted(held)
            cut = int(joined["submit"]["submit"].search_sorted(submit[-1], side="left"))
            yield {view: frame.head(cut) for view, frame in joined.items()}
            held = [{view: frame.slice(cut) for view, frame in joined.items()}]
    if held:
        yield _sorted(held)


def _sorted(parts: Sequence[Jobs]) -> Jobs:
    joined = {view: pl.concat([part[view] for part in parts]) for view in parts[0]}
    places = joined["submit"].select(pl.arg_sort_by(*ORDER)).to_series()
    if (np.diff(places.to_numpy()) == 1).all():  # nothing to copy
        return joined
    return {view: frame[places] for view, frame in joined.items()}


def events_of(inputs: Inputs, until: int | None = None, looks: NDArray[np.int64] | None = None) -> Events:
    """Return the events of all jobs in order, without outcomes known after `until`.

    `looks`: moments of their wait at which jobs are looked at, -1 for those that are not. In one second they
    come last.
    """
    submit = inputs.ids["submit"].to_numpy()
    # Clocks of different machines disagree: a job never starts before its submit, nor ends before its start.
    start = np.where(inputs.start >= 0, np.maximum(inputs.start, submit), -1)
    known = np.where(inputs.known >= 0, np.maximum(inputs.known, np.maximum(start, submit)), -1)
    if until is not None:
        known = np.where(known <= until, known, -1)
    started, ended = np.flatnonzero(start >= 0), np.flatnonzero(known >= 0)
    looks = np.full(0, -1) if looks is None else looks
    looked = np.flatnonzero(looks >= 0)
    times = np.concatenate([submit, start[started], known[ended], looks[looked]])
    counts = [len(submit), len(started), len(ended), len(looked)]
    kinds = np.repeat(np.array([SUBMIT, START, KNOWN, WAITING], np.int8), counts)
    order = np.argsort(times * 4 + kinds, kind="stable")
    jobs = np.concatenate([np.arange(len(submit)), started, ended, looked])
    return Events(times[order], kinds[order], jobs[order])


def draw_looks_while_waiting(inputs: Inputs) -> NDArray[np.int64]:
    """Draw a moment of the wait for a quarter of the jobs that wait; -1 for all others.

    The same jobs have the same moments, whatever comes after them.
    """
    submit = inputs.ids["submit"].to_numpy()
    wait = np.where(inputs.start >= 0, np.maximum(inputs.start - submit, 0), 0)
    chance = np.random.default_rng(0).random((len(submit), 2))
    return np.where(
        (wait > 0) & (chance[:, 0] < LOOKED_AT), submit + (chance[:, 1] * wait).astype(np.int64), -1
    )


def walk(
    state: State,
    inputs: Inputs,
    events: Events,
    *,
    emitted: int = NEVER,
    places: NDArray[np.int64] | None = None,
) -> Iterator[tuple[State, NDArray[np.int64], NDArray[np.float64]]]:
    """Run the kernel over all events; yield after each chunk the state, the jobs and their features.

    `places`, where given, tells at the end where each job lies that is still in flight; -1 for the others.
    """
    if places is None:
        places = np.full(inputs.numbers.shape[0], -1, np.int64)
    for begin in range(0, len(events.times), _CHUNK):
        chunk = slice(begin, begin + _CHUNK)
        kinds, jobs = events.kinds[chunk], events.jobs[chunk]
        submits, ends = int((kinds == SUBMIT).sum()), int((kinds == KNOWN).sum())
        later = jobs[kinds != SUBMIT]
        nodes = int((inputs.node_first[later + 1] - inputs.node_first[later]).sum())
        # A start may bring other keys than the submit had: the request can have changed while pending.
        rows = (submits + int((kinds == emitted).sum())) * L.N_ENTITIES + nodes
        state = with_room(state, rows=rows, rings=ends, flights=submits)
        about = jobs[kinds == emitted]
        out = np.empty((len(about), L.N_FEATURES))
        run.for_rows(len(events.times))(
            state,
            events.times[chunk],
            kinds,
            jobs,
            inputs.numbers,
            inputs.atoms,
            inputs.numbers_at_start,
            inputs.atoms_at_start,
            inputs.results,
            inputs.node_first,
            inputs.node_keys,
            places,
            emitted,
            out,
        )
        yield state, about, out
