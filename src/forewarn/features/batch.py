"""The kernel over a whole history: events in order, features out in chunks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from forewarn.features import layout as L  # noqa: N812
from forewarn.features.inputs import (
    COLUMNS,
    Inputs,
    atoms_of,
    nodes_of,
    numbers_of,
    policed,
    results_of,
)
from forewarn.features.kernel.run import run
from forewarn.features.kernel.state import KNOWN, NEVER, START, SUBMIT, State, with_room
from forewarn.job.outcomes import Policy
from forewarn.store.base import ClusterFacts, Store

_CHUNK = 50_000  # events walked at a time
_IDS = ("cluster", "job_id", "submit")


@dataclass(frozen=True, slots=True)
class Events:
    """What happened, in order of time. In one second: submits, then starts, then outcomes.

    So an outcome counts for what comes strictly after it; two events of one kind keep the jobs' order.
    """

    times: NDArray[np.int64]
    kinds: NDArray[np.int8]
    jobs: NDArray[np.int64]


def read_inputs(store: Store, cluster: str, policy: Policy, *, phase: str) -> Inputs:
    """Everything the features need of a cluster's history, as seen by each job's own moment."""
    facts = store.clusters().get(cluster, ClusterFacts())
    at_submit = store.scan("job", view="submit", cluster=cluster, columns=COLUMNS)
    at_start = store.scan("job", view="start", cluster=cluster, columns=COLUMNS) if phase == "start" else None
    return inputs_of(at_submit, at_start, facts, policy)


def inputs_of(
    at_submit: Iterable[pl.DataFrame],
    at_start: Iterable[pl.DataFrame] | None,
    facts: ClusterFacts,
    policy: Policy,
) -> Inputs:
    """Frames of jobs as arrays; `at_start` has the same jobs as they were known at their start."""
    ids, columns = [], []
    for frame in at_submit:
        frame = policed(_ordered(frame), facts)
        ids.append(frame.select(_IDS))
        columns.append(
            (
                frame["start"].fill_null(-1).to_numpy(),
                frame["known_at"].fill_null(-1).to_numpy(),
                numbers_of(frame, facts.timezone),
                atoms_of(frame),
                results_of(frame, policy),
                *nodes_of(frame["nodes"]),
            )
        )
    if not ids:
        empty = pl.DataFrame(schema={name: _dtype(name) for name in COLUMNS})
        return inputs_of([empty], None, facts, policy)
    start, known, numbers, atoms, results, first, nodes = zip(*columns, strict=True)
    del columns
    base = np.cumsum([0, *(len(n) for n in nodes)])
    submit_numbers, submit_atoms = np.concatenate(numbers), np.concatenate(atoms)
    start_numbers, start_atoms = submit_numbers, submit_atoms
    if at_start is not None:
        frames = [policed(_ordered(frame), facts) for frame in at_start]
        start_numbers = np.concatenate([numbers_of(f, facts.timezone, "start") for f in frames])
        start_atoms = np.concatenate([atoms_of(f) for f in frames])
    return Inputs(
        ids=pl.concat(ids),
        start=np.concatenate(start),
        known=np.concatenate(known),
        numbers=submit_numbers,
        atoms=submit_atoms,
        numbers_at_start=start_numbers,
        atoms_at_start=start_atoms,
        results=np.concatenate(results),
        node_first=np.concatenate(
            [np.zeros(1, np.int64), *(f[1:] + b for f, b in zip(first, base, strict=False))]
        ),
        node_keys=np.concatenate(nodes),
    )


def _dtype(name: str) -> pl.DataType:
    from forewarn.job.columns import JOB_SCHEMA

    return JOB_SCHEMA.get(name, pl.Int64())


def _ordered(frame: pl.DataFrame) -> pl.DataFrame:
    """In order of submit, and within a second as the ids count: 9 before 10."""
    return frame.sort("submit", pl.col("job_id").str.len_chars(), "job_id")


def events_of(inputs: Inputs) -> Events:
    """The events of all jobs in the order in which they are walked."""
    submit = inputs.ids["submit"].to_numpy()
    # Clocks of different machines disagree: a job never starts before its submit, nor ends before its start.
    start = np.where(inputs.start >= 0, np.maximum(inputs.start, submit), -1)
    known = np.where(inputs.known >= 0, np.maximum(inputs.known, np.maximum(start, submit)), -1)
    started, ended = np.flatnonzero(start >= 0), np.flatnonzero(known >= 0)
    times = np.concatenate([submit, start[started], known[ended]])
    kinds = np.repeat(np.array([SUBMIT, START, KNOWN], np.int8), [len(submit), len(started), len(ended)])
    order = np.argsort(times * 4 + kinds, kind="stable")
    jobs = np.concatenate([np.arange(len(submit)), started, ended])
    return Events(times[order], kinds[order], jobs[order])


def walk(
    state: State, inputs: Inputs, events: Events, *, emitted: int = NEVER
) -> Iterator[tuple[State, NDArray[np.int64], NDArray[np.float64]]]:
    """Let the kernel walk all events; after each chunk the state, and the jobs and features emitted in it."""
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
        run(
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
