"""The table that models learn from: one row a job, its features at a phase, and its outcome."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from forewarn.errors import UsageError
from forewarn.features import missing_fields
from forewarn.features.batch import (
    InputArrays,
    Jobs,
    as_read,
    columns_at,
    draw_looks_while_waiting,
    event_of,
    events_of,
    ordered,
    walk,
)
from forewarn.features.inputs import Inputs
from forewarn.features.kernel import layout as L  # noqa: N812
from forewarn.features.kernel.state import WAITING, new_state
from forewarn.features.programs import EarlierPrograms
from forewarn.features.slurm_field_differences import reading_of
from forewarn.job.outcomes import FailurePolicy
from forewarn.job.phase import POSTHOC, Phase, phase_of
from forewarn.job.record import Job
from forewarn.learn.data.job_details import (
    OUTCOME_COLUMNS,
    POSTHOC_COLUMNS,
    REQUEST_COLUMNS,
    activity,
    describe,
    describe_live_jobs,
    posthoc_values,
)
from forewarn.learn.data.matrix import Rows
from forewarn.learn.data.population import Population
from forewarn.store.base import ClusterFacts, Store


@dataclass(frozen=True)
class JobTable:
    """Jobs of one cluster at one phase, in order of submit.

    `values` holds all features of the phase; a feature set is a selection of them. `about` describes the jobs
    for splits, slices, profiles, causes and costs. A model never sees it, except for the categories in
    `encoders.py`. Its columns are job_id, submit, start, end, run_time, wait, user, partition, qos,
    script_language, script_launcher, script_modules, outcome, kind (of failure: user, system, limit), cpus,
    nodes, memory (bytes of the whole job), label (the program, or the name without run numbers), cpu_time,
    max_memory, io_bytes (read and written), time_limit, node_hours, cpu_hours (used: run time × CPUs),
    asked_cpu_hours (time limit × CPUs), gpus, activity (of the user: new, infrequent, frequent).
    """

    cluster: str
    phase: str
    population: str
    names: tuple[str, ...]
    values: NDArray[np.float32]  # jobs × features, NaN is missing
    fails: NDArray[np.float64]  # 1, 0; NaN for a job outside the population or without an outcome yet
    known_at: NDArray[np.int64]  # when the outcome became known; -1 for not yet
    at: NDArray[np.int64]  # the time of the features: the submit or the start
    about: pl.DataFrame
    # Submits of all jobs, also of those without a row at this phase: blocks are cut by them, so that they are
    # the same at all phases.
    all_submits: NDArray[np.int64] | None = None
    # How much each job counts in training: the equal jobs of a bulk are one decision. None: all count as 1.
    decision_weights: NDArray[np.float64] | None = None
    # How each field that is not taken as recorded was read: `features.slurm_field_differences.reading_of`.
    reading: Mapping[str, str] = field(default_factory=dict)
    # Fields whose absence reveals the outcome.
    absences: tuple[missing_fields.MissingField, ...] = ()
    # At phase `start`: rows of some jobs, and their features while they were still pending.
    pending_features: tuple[NDArray[np.int64], NDArray[np.float32]] | None = None

    @cached_property
    def submit(self) -> NDArray[np.int64]:
        """The submit time of each job."""
        return self.about["submit"].to_numpy()

    @cached_property
    def labelled(self) -> NDArray[np.bool_]:
        """A mask of the jobs that are examples: in the population, with a known outcome."""
        return np.isfinite(self.fails) & (self.known_at >= 0)

    @cached_property
    def fingerprint(self) -> str:
        """A hash that is equal for equal jobs, features and labels."""
        digest = hashlib.blake2b(digest_size=16)
        digest.update(repr((self.cluster, self.phase, self.population, self.names)).encode())
        for part in (self.values, self.fails, self.known_at, self.at, self.submit, self.weights):
            digest.update(np.ascontiguousarray(part).view(np.uint8).data)
        return digest.hexdigest()

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """The weight of each job in training, from 0 to 1."""
        return np.ones(len(self.fails)) if self.decision_weights is None else self.decision_weights

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self.names)}

    def column(self, name: str) -> NDArray[np.float32]:
        """Return one feature of all jobs."""
        return self.values[:, self._places[name]]

    def for_training(self) -> JobTable:
        """Return the table to learn from: with features from the wait for a quarter of the jobs that waited.

        The model of phase `start` also serves pending jobs, about which less is known.
        """
        if self.pending_features is None:
            return self
        values, (rows, pending_values) = self.values.copy(), self.pending_features
        values[rows] = pending_values
        return replace(self, values=values, pending_features=None)

    def rows(self, which: Rows) -> JobTable:
        """Return a table of some of the jobs."""
        return JobTable(
            self.cluster,
            self.phase,
            self.population,
            self.names,
            self.values[which],
            self.fails[which],
            self.known_at[which],
            self.at[which],
            _take_rows(self.about, which),
            decision_weights=None if self.decision_weights is None else self.decision_weights[which],
            reading=self.reading,
            absences=self.absences,
        )


@cache
def _features_at(phase: str) -> tuple[NDArray[np.intp], tuple[str, ...]]:
    """Return the places and names of all features of a phase."""
    places = L.selected(phase, "generic")
    return np.array(places), tuple(L.FEATURES[place].name for place in places)


class FeatureColumns(Mapping[str, NDArray[np.float32]]):
    """A view of a table's features by name; a column is taken out when it is read."""

    def __init__(self, table: JobTable) -> None:
        self._table = table

    def __getitem__(self, name: str) -> NDArray[np.float32]:
        return self._table.column(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._table.names)

    def __len__(self) -> int:
        return len(self._table.names)


def _take_rows(frame: pl.DataFrame, which: Rows) -> pl.DataFrame:
    """Take some rows; adjacent ones by a slice, since a copy would wake all of Polars' threads."""
    if which.dtype == bool:
        return frame.filter(pl.Series(which))
    if len(which) and which[0] >= 0 and (np.diff(which) == 1).all():
        return frame.slice(int(which[0]), len(which))
    return frame[which]


def read_table(
    store: Store,
    cluster: str,
    phase: str,
    population: Population,
    progress: Callable[[int, int], None] | None = None,
) -> JobTable:
    """Build the table of a cluster's history. At phase `start`, jobs that never started have no row."""
    model_phase = phase_of(phase)
    facts = store.clusters().get(cluster, ClusterFacts())
    inputs, about, absences = _read(store, cluster, model_phase, facts, population.policy)
    places = L.selected(model_phase, "generic")
    names = tuple(L.FEATURES[place].name for place in places)
    events = events_of(inputs)
    emitted = event_of(model_phase)
    total = int((events.kinds == emitted).sum())
    values = np.full((about.height, len(places)), np.nan, np.float32)
    has_row, weights = np.zeros(about.height, np.bool_), np.ones(about.height)
    for _, jobs, out in walk(new_state(), inputs, events, emitted=emitted):
        values[jobs] = out[:, places]
        weights[jobs] = out[:, L.F_DECISION_WEIGHT]
        has_row[jobs] = True
        if progress:
            progress(int(has_row.sum()), total)
    if phase == POSTHOC:
        names += POSTHOC_COLUMNS
        values = np.hstack([values, posthoc_values(about)])
    about = about.with_columns(activity(values[:, names.index("user_ended")]))
    fails = np.where(population.mask(about), inputs.results[:, L.R_FAILS], np.nan)
    at = inputs.ids["submit"].to_numpy() if model_phase.elapsed is None else inputs.start
    table = JobTable(
        cluster,
        phase,
        population.name,
        names,
        values,
        fails,
        inputs.known,
        at,
        about,
        decision_weights=weights,
        reading=reading_of(facts),
        absences=absences,
    )
    if not has_row.all():
        table = replace(table.rows(has_row), all_submits=table.submit)
    if model_phase.elapsed is None:
        return table
    return replace(table, pending_features=_pending_features(inputs, has_row, places))


def _read(
    store: Store, cluster: str, phase: Phase, facts: ClusterFacts, policy: FailurePolicy
) -> tuple[Inputs, pl.DataFrame, tuple[missing_fields.MissingField, ...]]:
    """Read all that a table needs in one pass over the history."""
    columns = columns_at(phase)
    columns["submit"] = _union(columns["submit"], REQUEST_COLUMNS, missing_fields.COLUMNS)
    columns["now"] = _union(columns["now"], OUTCOME_COLUMNS)
    programs = EarlierPrograms.read(store, cluster)
    arrays, about = InputArrays(facts, policy), list[pl.DataFrame]()
    absences = missing_fields.MissingFieldCounts()

    def counted(frames: Iterator[Jobs]) -> Iterator[Jobs]:
        for jobs in frames:
            absences.add(jobs["submit"])
            yield jobs

    for jobs in ordered(counted(store.scan_views(columns, cluster=cluster))):
        jobs = as_read(jobs, facts, programs)
        arrays.add(jobs)
        about.append(describe(jobs["submit"], jobs["now"]))
    if not about:
        clusters = ", ".join(store.clusters()) or "none"
        raise UsageError(f"no cluster {cluster!r} in the store; choose from {clusters}")
    return arrays.joined(), pl.concat(about), tuple(absences.findings(cluster))


def _union(*names: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for part in names for name in part))


def _pending_features(
    inputs: Inputs, has_row: NDArray[np.bool_], places: Sequence[int]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Compute features of some jobs while they were pending; return their table rows and the values."""
    events = events_of(inputs, looks=draw_looks_while_waiting(inputs))
    parts = [
        (jobs, out[:, places].astype(np.float32))
        for _, jobs, out in walk(new_state(), inputs, events, emitted=WAITING)
    ]
    rows = np.cumsum(has_row) - 1
    jobs = np.concatenate([np.zeros(0, np.int64), *(jobs for jobs, _ in parts)])
    values = np.concatenate([np.zeros((0, len(places)), np.float32), *(values for _, values in parts)])
    return rows[jobs], values


def live_table(
    cluster: str,
    phase: str,
    jobs: Sequence[Job],
    rows: NDArray[np.float64],
    at: int,
    facts: ClusterFacts,
) -> JobTable:
    """Build the table of jobs that have not ended.

    `rows` are their features at the time `at`, from the online state. The jobs' fields have been treated by
    the cluster's rules already (`treated_jobs`).
    """
    places, names = _features_at(phase)
    values = np.ascontiguousarray(rows[:, places], np.float32)
    about = describe_live_jobs(jobs, values[:, names.index("user_ended")])
    fails = np.full(len(jobs), np.nan)
    known_at, times = np.full(len(jobs), -1), np.full(len(jobs), at)
    reading = reading_of(facts)
    return JobTable(cluster, phase, "", names, values, fails, known_at, times, about, reading=reading)
