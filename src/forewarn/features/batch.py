"""The kernel over a whole history: events in order, features out in chunks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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
    policed,
    results_of,
)
from forewarn.features.kernel import layout as L  # noqa: N812
from forewarn.features.kernel.run import run
from forewarn.features.kernel.state import KNOWN, NEVER, START, SUBMIT, WAITING, State, with_room
from forewarn.features.programs import EarlierPrograms
from forewarn.job.columns import JOB_SCHEMA
from forewarn.job.outcomes import Policy
from forewarn.job.phase import Phase
from forewarn.store.base import ClusterFacts, Store

_CHUNK = 50_000  # events walked at a time
# Of jobs that wait, those that a model of starts learns from as they waited, not as they started. Half of
# them costs ranking at start (Graham: ROC-AUC .946 instead of .950), an eighth ranking of jobs that wait
# (.876 instead of .880): docs/measurements.md#jobs-that-wait-run-or-are-asked-about-on-a-login-node.
LOOKED_AT = 0.25
_IDS = ("cluster", "job_id", "submit")
_ORDER = (pl.col("submit"), pl.col("job_id").str.len_chars(), pl.col("job_id"))


def event_of(phase: Phase) -> int:
    """The kind of event just before which the features of a phase are read off."""
    return SUBMIT if phase.elapsed is None else START


@dataclass(frozen=True, slots=True)
class Events:
    """What happened, in order of time. In one second: submits, then starts, then outcomes.

    So an outcome counts for what comes strictly after it; two events of one kind keep the jobs' order.
    """

    times: NDArray[np.int64]
    kinds: NDArray[np.int8]
    jobs: NDArray[np.int64]


def read_inputs(
    store: Store, cluster: str, policy: Policy, *, phase: str, programs: EarlierPrograms | None = None
) -> Inputs:
    """Everything the features need of a cluster's history, as seen by each job's own moment."""
    facts = store.clusters().get(cluster, ClusterFacts())
    programs = programs or EarlierPrograms.read(store, cluster)
    at_submit = store.scan("job", view="submit", cluster=cluster, columns=COLUMNS)
    at_start = store.scan("job", view="start", cluster=cluster, columns=COLUMNS)
    return inputs_of(
        map(programs.with_column, at_submit),
        map(programs.with_column, at_start) if Phase(phase).reaches(Phase.START) else None,
        store.scan("job", view="now", cluster=cluster, columns=RESULT_COLUMNS),
        facts,
        policy,
    )


def inputs_of(
    at_submit: Iterable[pl.DataFrame],
    at_start: Iterable[pl.DataFrame] | None,
    at_end: Iterable[pl.DataFrame],
    facts: ClusterFacts,
    policy: Policy,
) -> Inputs:
    """Frames of the same jobs, as they were known at their submit, start and end, as arrays."""
    ids: list[pl.DataFrame] = []
    columns: list[tuple[NDArray[Any], ...]] = []
    for frame in ordered(at_submit):
        frame = policed(frame, facts)
        ids.append(frame.select(_IDS))
        columns.append((numbers_of(frame, facts.timezone), atoms_of(frame)))
    if not ids:
        names = {*COLUMNS, *RESULT_COLUMNS}
        empty = pl.DataFrame(schema={name: JOB_SCHEMA.get(name, pl.Int64()) for name in names})
        return inputs_of([empty], None, [empty], facts, policy)
    all_numbers, all_atoms = zip(*columns, strict=True)
    del columns
    numbers, atoms = np.concatenate(all_numbers), np.concatenate(all_atoms)
    numbers_at_start, atoms_at_start = numbers, atoms
    if at_start is not None:
        seen = [
            (numbers_of(frame, facts.timezone, "start"), atoms_of(frame))
            for frame in (policed(frame, facts) for frame in ordered(at_start))
        ]
        numbers_at_start, atoms_at_start = (np.concatenate(parts) for parts in zip(*seen, strict=True))
    # Nodes too are of the end: at submit there are none, and no event before the start asks for them.
    ends = [
        (
            *(frame["start"].fill_null(-1), frame["known_at"].fill_null(-1), results_of(frame, policy)),
            *nodes_of(frame["nodes"]),
        )
        for frame in ordered(at_end)
    ]
    starts, knowns, all_results, firsts, all_nodes = zip(*ends, strict=True)
    del ends
    bases = np.cumsum([0, *(len(nodes) for nodes in all_nodes[:-1])])
    return Inputs(
        ids=pl.concat(ids),
        start=np.concatenate(starts),
        known=np.concatenate(knowns),
        numbers=numbers,
        atoms=atoms,
        numbers_at_start=numbers_at_start,
        atoms_at_start=atoms_at_start,
        results=np.concatenate(all_results),
        node_first=np.concatenate(
            [[0], *(first[1:] + base for first, base in zip(firsts, bases, strict=True))]
        ),
        node_keys=np.concatenate(all_nodes),
    )


def ordered(frames: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Frames that follow one another, in order of submit; in one second as the ids count, 9 before 10."""
    held: list[pl.DataFrame] = []  # the last second so far, which may go on in the next frame
    for frame in frames:
        held.append(frame)
        if frame.height and frame["submit"][0] != frame["submit"][-1]:
            joined = pl.concat(held)
            goes_on = pl.col("submit") == frame["submit"][-1]
            yield joined.filter(~goes_on).sort(*_ORDER)
            held = [joined.filter(goes_on)]
    if held:
        yield pl.concat(held).sort(*_ORDER)


def events_of(inputs: Inputs, until: int | None = None, looks: NDArray[np.int64] | None = None) -> Events:
    """The events of all jobs in the order in which they are walked; no outcome known after `until`.

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


def looks_while_waiting(inputs: Inputs) -> NDArray[np.int64]:
    """For a quarter of the jobs that wait a moment of their wait, by chance; -1 for all others.

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
    """Let the kernel walk all events; after each chunk the state, and the jobs and features emitted in it.

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
