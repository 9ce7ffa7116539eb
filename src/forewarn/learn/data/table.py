"""The jobs of a cluster as a model learns them: what was knowable at a phase, and what came of it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from forewarn.errors import UsageError
from forewarn.features import missing_fields as absence
from forewarn.features.batch import (
    InputArrays,
    Jobs,
    as_read,
    columns_at,
    event_of,
    events_of,
    looks_while_waiting,
    ordered,
    walk,
)
from forewarn.features.inputs import Inputs, policed
from forewarn.features.kernel import layout as L  # noqa: N812
from forewarn.features.kernel.state import WAITING, new_state
from forewarn.features.keys import normalised, normalised_column
from forewarn.features.labels import ran_to_limit
from forewarn.features.programs import EarlierPrograms
from forewarn.features.slurm_field_differences import reading_of
from forewarn.job.columns import JOB_SCHEMA
from forewarn.job.memory import total_memory, total_memory_column
from forewarn.job.outcomes import FailureKind, FailurePolicy, Outcome, kind_of
from forewarn.job.phase import POSTHOC, Phase, phase_of
from forewarn.job.record import Job
from forewarn.learn.data.matrix import Rows
from forewarn.learn.data.population import Population
from forewarn.store.base import ClusterFacts, Store

# What the papers' protocol adds: known only at the end, so never served.
POSTHOC_COLUMNS = (
    *("posthoc_run_time", "posthoc_cpu_time", "posthoc_cpu_rate", "posthoc_cpu_share"),
    *("posthoc_limit_share", "posthoc_limit_left"),
    *("posthoc_wait", "posthoc_max_memory", "posthoc_cpus_given"),
)
NEW, FREQUENT = 10, 100  # earlier jobs below which a user is new, from which a frequent one
ASKED = (
    *("cluster", "job_id", "submit", "user", "partition", "qos", "time_limit", "memory_asked", "memory_per"),
    *("cpus_asked", "nodes_asked", "gpus_asked", "cpus_given", "nodes_given", "application", "name"),
    *("script_language", "script_launcher", "script_modules"),
)
BECAME = (
    *("cluster", "job_id", "submit", "start", "end", "suspended", "outcome", "exit_code", "exit_signal"),
    *("cpu_time", "max_memory", "cpus_given", "nodes_given", "time_limit", "io_read", "io_written"),
)


@dataclass(frozen=True)
class JobTable:
    """Jobs in order of submit.

    `values` are all features of the phase, of which a feature set takes some. `about` is for splits, slices,
    profiles, causes and costs, never for a model, save the categories in `encoders.py`: job_id, submit,
    start, end, run_time, wait, user, partition, qos, script_language, script_launcher, script_modules,
    outcome, kind (user, system, limit), cpus, nodes, memory (bytes of all the job), label (the program, or
    the name without run numbers), cpu_time, max_memory, io_bytes (read and written), time_limit, node_hours,
    cpu_hours (used: run time × CPUs), asked_cpu_hours (time limit × CPUs), gpus, activity (new, infrequent,
    frequent).
    """

    cluster: str
    phase: str
    population: str
    names: tuple[str, ...]
    values: NDArray[np.float32]  # jobs × features, NaN is missing
    fails: NDArray[np.float64]  # 1, 0, NaN where the job has no part or no outcome yet
    known: NDArray[np.int64]  # when the outcome became known, -1 for not yet
    moment: NDArray[np.int64]  # of the phase: the submit or the start
    about: pl.DataFrame
    # Submits of all jobs, those without a row at this phase too: blocks are cut by them, alike at all phases.
    all_submits: NDArray[np.int64] | None = None
    # How much each job counts in learning: equal jobs sent at once are few decisions. None: all alike.
    decision_weights: NDArray[np.float64] | None = None
    # How fields were read that are not read as records have them: `features.slurm_field_differences.reading_of`.
    reading: Mapping[str, str] = field(default_factory=dict)
    # Fields whose absence gives the outcome away.
    absences: tuple[absence.MissingField, ...] = ()

    # At `start`, of some jobs (by row) their features while they still waited: see `as_learnt`.
    waiting: tuple[NDArray[np.int64], NDArray[np.float32]] | None = None

    @cached_property
    def submit(self) -> NDArray[np.int64]:
        """When each job was submitted."""
        return self.about["submit"].to_numpy()

    @cached_property
    def labelled(self) -> NDArray[np.bool_]:
        """Which jobs are examples: of the population, and ended."""
        return np.isfinite(self.fails) & (self.known >= 0)

    @cached_property
    def fingerprint(self) -> str:
        """The same for the same jobs, features and labels."""
        made = hashlib.blake2b(digest_size=16)
        made.update(repr((self.cluster, self.phase, self.population, self.names)).encode())
        for part in (self.values, self.fails, self.known, self.moment, self.submit, self.weights):
            made.update(np.ascontiguousarray(part).view(np.uint8).data)
        return made.hexdigest()

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """How much each job counts in learning, from 0 to 1."""
        return np.ones(len(self.fails)) if self.decision_weights is None else self.decision_weights

    @cached_property
    def _place(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self.names)}

    def column(self, name: str) -> NDArray[np.float32]:
        """One feature."""
        return self.values[:, self._place[name]]

    def as_learnt(self) -> JobTable:
        """The table to learn from: of a quarter of the jobs that waited, what was known while they did.

        The model of starts serves jobs that wait, too, and of those less is known.
        """
        if self.waiting is None:
            return self
        values, (rows, then) = self.values.copy(), self.waiting
        values[rows] = then
        return replace(self, values=values, waiting=None)

    def rows(self, which: Rows) -> JobTable:
        """Some of the jobs."""
        return JobTable(
            self.cluster,
            self.phase,
            self.population,
            self.names,
            self.values[which],
            self.fails[which],
            self.known[which],
            self.moment[which],
            _taken(self.about, which),
            decision_weights=None if self.decision_weights is None else self.decision_weights[which],
            reading=self.reading,
            absences=self.absences,
        )


@cache
def _generic(phase: str) -> tuple[NDArray[np.intp], tuple[str, ...]]:
    """The places and names of the features that there are at a phase."""
    places = L.selected(phase, "generic")
    return np.array(places), tuple(L.FEATURES[place].name for place in places)


class Columns(Mapping[str, NDArray[np.float32]]):
    """The features of a table by name, taken out of it when they are asked for."""

    def __init__(self, table: JobTable) -> None:
        self._table = table

    def __getitem__(self, name: str) -> NDArray[np.float32]:
        return self._table.column(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._table.names)

    def __len__(self) -> int:
        return len(self._table.names)


def _taken(frame: pl.DataFrame, which: Rows) -> pl.DataFrame:
    """Take some rows; of neighbours nothing is copied, for which Polars would wake all its threads."""
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
    """The table of a cluster's history. At phase `start`, jobs that never started have no row."""
    at = phase_of(phase)
    facts = store.clusters().get(cluster, ClusterFacts())
    inputs, about, absences = _read(store, cluster, at, facts, population.policy)
    places = L.selected(at, "generic")
    names = tuple(L.FEATURES[place].name for place in places)
    events = events_of(inputs)
    emitted = event_of(at)
    total = int((events.kinds == emitted).sum())
    values = np.full((about.height, len(places)), np.nan, np.float32)
    there, weights = np.zeros(about.height, np.bool_), np.ones(about.height)
    for _, jobs, out in walk(new_state(), inputs, events, emitted=emitted):
        values[jobs] = out[:, places]
        weights[jobs] = out[:, L.F_DECISION_WEIGHT]
        there[jobs] = True
        if progress:
            progress(int(there.sum()), total)
    if phase == POSTHOC:
        names += POSTHOC_COLUMNS
        values = np.hstack([values, _posthoc(about)])
    about = about.with_columns(_activity(values[:, names.index("user_ended")]))
    fails = np.where(population.of(about), inputs.results[:, L.R_FAILS], np.nan)
    moment = inputs.ids["submit"].to_numpy() if at.elapsed is None else inputs.start
    table = JobTable(
        cluster,
        phase,
        population.name,
        names,
        values,
        fails,
        inputs.known,
        moment,
        about,
        decision_weights=weights,
        reading=reading_of(facts),
        absences=absences,
    )
    if not there.all():
        table = replace(table.rows(there), all_submits=table.submit)
    return table if at.elapsed is None else replace(table, waiting=_waiting(inputs, there, places))


def _read(
    store: Store, cluster: str, phase: Phase, facts: ClusterFacts, policy: FailurePolicy
) -> tuple[Inputs, pl.DataFrame, tuple[absence.MissingField, ...]]:
    """Read all that a table needs in one pass over the history."""
    columns = columns_at(phase)
    columns["submit"] = _union(columns["submit"], ASKED, absence.COLUMNS)
    columns["now"] = _union(columns["now"], BECAME)
    programs = EarlierPrograms.read(store, cluster)
    arrays, about, absences = InputArrays(facts, policy), list[pl.DataFrame](), absence.MissingFieldCounts()

    def counted(frames: Iterator[Jobs]) -> Iterator[Jobs]:
        for jobs in frames:
            absences.add(jobs["submit"])
            yield jobs

    for jobs in ordered(counted(store.scan_views(columns, cluster=cluster))):
        jobs = as_read(jobs, facts, programs)
        arrays.add(jobs)
        about.append(_described(jobs["submit"], jobs["now"]))
    if not about:
        known = ", ".join(store.clusters()) or "none"
        raise UsageError(f"no cluster {cluster!r} in the store; there are {known}")
    return arrays.joined(), pl.concat(about), tuple(absences.findings(cluster))


def _union(*names: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for some in names for name in some))


def _waiting(
    inputs: Inputs, there: NDArray[np.bool_], places: Sequence[int]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Of some jobs their features at a moment of their wait, with their rows among those that are `there`."""
    events = events_of(inputs, looks=looks_while_waiting(inputs))
    parts = [
        (jobs, out[:, places].astype(np.float32))
        for _, jobs, out in walk(new_state(), inputs, events, emitted=WAITING)
    ]
    rows = np.cumsum(there) - 1
    jobs = np.concatenate([np.zeros(0, np.int64), *(jobs for jobs, _ in parts)])
    values = np.concatenate([np.zeros((0, len(places)), np.float32), *(values for _, values in parts)])
    return rows[jobs], values


def table_of_now(
    cluster: str,
    phase: str,
    jobs: Sequence[Job],
    rows: NDArray[np.float64],
    at: int,
    facts: ClusterFacts,
) -> JobTable:
    """The table of jobs that have not ended, of which the online state tells the features as of a moment.

    Their fields are read as the cluster's are (`policed_job`).
    """
    places, names = _generic(phase)
    values = np.ascontiguousarray(rows[:, places], np.float32)
    about = about_live(jobs, values[:, names.index("user_ended")])
    nothing = np.full(len(jobs), np.nan)
    never, moment = np.full(len(jobs), -1), np.full(len(jobs), at)
    reading = reading_of(facts)
    return JobTable(cluster, phase, "", names, values, nothing, never, moment, about, reading=reading)


def about_live(jobs: Sequence[Job], ended: NDArray[np.float32]) -> pl.DataFrame:
    """Those columns of `JobTable.about` that there are of jobs that have not ended: their request and wait.

    As `_described` makes them of frames, which takes far longer for one job; a test holds them equal.
    """
    made: dict[str, list[Any]] = {name: [getattr(job, name) for job in jobs] for name in _AS_ASKED}
    made |= {name: [getattr(job, field) for job in jobs] for name, field in _LIVE_NAMES.items()}
    made["nodes"] = [max(job.nodes_asked or 1, 1) for job in jobs]
    made["memory"] = [total_memory(job) for job in jobs]
    made["label"] = [_label(job) for job in jobs]
    made["wait"] = [None if job.start is None else max(job.start - job.submit, 0) for job in jobs]
    columns = [pl.Series(name, values, _LIVE_SCHEMA[name]) for name, values in made.items()]
    return pl.DataFrame([*columns, _activity(ended)])


def _label(job: Job) -> str | None:
    """The program, or the name without run numbers."""
    if job.application is not None or job.name is None:
        return job.application
    return normalised(job.name)


_AS_ASKED = (
    *("job_id", "submit", "user", "partition", "qos", "time_limit"),
    *("script_language", "script_launcher", "script_modules"),
)
_LIVE_NAMES = {"cpus": "cpus_asked", "gpus": "gpus_asked", "start": "start"}
_LIVE_SCHEMA: Mapping[str, pl.DataType] = {
    **{name: JOB_SCHEMA[name] for name in _AS_ASKED},
    **dict.fromkeys((*_LIVE_NAMES, "nodes", "memory", "wait"), pl.Int64()),
    "label": pl.String(),
}


def described(jobs: pl.DataFrame, facts: ClusterFacts) -> pl.DataFrame:
    """The columns of `JobTable.about`, but for `activity`, of jobs as they are known now."""
    return _described(policed(jobs, facts), jobs)


def _described(asked: pl.DataFrame, became: pl.DataFrame) -> pl.DataFrame:
    """Jobs as they asked, and in the same order as they became, in the columns of `JobTable.about`."""
    run_time = pl.col("end") - pl.col("start") - pl.col("suspended").fill_null(0)
    nodes = pl.col("nodes_asked").fill_null(1).clip(1)
    then = became.with_columns(_kind(became), run_time=run_time.clip(0))
    cpus = pl.col("cpus_asked")  # what was given is not known at submit
    return asked.select(
        *("job_id", "submit", "user", "partition", "qos", "time_limit"),
        *("script_language", "script_launcher", "script_modules"),
        cpus=cpus,
        nodes=nodes,
        gpus=pl.col("gpus_asked"),
        memory=total_memory_column(),
        label=pl.coalesce("application", normalised_column(pl.col("name"))),
        start=then["start"],
        end=then["end"],
        run_time=then["run_time"],
        outcome=then["outcome"],
        kind=then["kind"],
        cpu_time=then["cpu_time"],
        max_memory=then["max_memory"],
        io_bytes=then["io_read"] + then["io_written"],
        cpus_used=then["cpus_given"],
        wait=(then["start"] - pl.col("submit")).clip(0),
        # A log without nodes (SWF) counts processors, which on its machines were nodes.
        node_hours=then["run_time"].fill_null(0) * _size(then) / 3600,
        # A job that never started has used nothing; one that has no CPUs has no hours that are known.
        cpu_hours=_cpu_hours(then),
        asked_cpu_hours=pl.col("time_limit") * cpus / 3600,
    )


def _cpu_hours(then: pl.DataFrame) -> pl.Expr:
    never_ran = then["start"].is_null() & then["end"].is_not_null()
    used = then["run_time"] * pl.coalesce(then["cpus_given"], "cpus_asked") / 3600
    return pl.when(never_ran).then(0.0).otherwise(used)


def _size(then: pl.DataFrame) -> pl.Series:
    return then.select(pl.coalesce("nodes_given", "cpus_given").fill_null(1).clip(1)).to_series()


def _kind(frame: pl.DataFrame) -> pl.Series:
    """Whose failure it was, for each row: few combinations, each asked once."""
    cases = frame.select("outcome", "exit_code", "exit_signal", at_limit=ran_to_limit())
    distinct = cases.unique()
    kinds = [
        kind_of(None if outcome is None else Outcome(outcome), code, signal, ran_to_limit=at_limit)
        for outcome, code, signal, at_limit in distinct.iter_rows()
    ]
    return cases.join(
        distinct.with_columns(kind=pl.Series([k and str(FailureKind(k)) for k in kinds], dtype=pl.String)),
        on=cases.columns,
        how="left",
        nulls_equal=True,
        maintain_order="left",
    )["kind"]


def _activity(ended: NDArray[np.float32]) -> pl.Series:
    level = np.searchsorted([NEW, FREQUENT], np.nan_to_num(ended), side="right")
    return pl.Series("activity", np.array(["new", "infrequent", "frequent"])[level])


def _posthoc(about: pl.DataFrame) -> NDArray[np.float32]:
    run_time, cpus = pl.col("run_time"), pl.coalesce("cpus_used", "cpus")
    made = about.select(
        run_time.alias("run_time"),
        pl.col("cpu_time"),
        (pl.col("cpu_time") / run_time).alias("cpu_rate"),
        (pl.col("cpu_time") / (run_time * cpus)).alias("cpu_share"),
        (run_time / pl.col("time_limit")).alias("limit_share"),
        (pl.col("time_limit") - run_time).alias("limit_left"),
        pl.col("wait"),
        pl.col("max_memory"),
        cpus.alias("cpus_given"),
    )
    return made.cast(pl.Float32).fill_null(np.nan).to_numpy()
