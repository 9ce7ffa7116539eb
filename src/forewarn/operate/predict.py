"""What the champion says of jobs that wait or run now.

What Slurm tells of them is kept in the store first, as the collector does; then their features are computed
as for a training, over the cluster's whole history there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import polars as pl

from forewarn.errors import RefusedError, RegistryError
from forewarn.job.arrays import split_arrays
from forewarn.learn.bundle import Bundle
from forewarn.learn.population import POPULATIONS
from forewarn.learn.registry import Registry
from forewarn.learn.serving import ModelName
from forewarn.learn.table import Table, read_table
from forewarn.operate.sightings import keep
from forewarn.sources.base import Batch
from forewarn.sources.live import Scheduler
from forewarn.store.base import Store

FEATURE_SETS = ("generic", "restricted")  # the first that has a champion serves
UNKNOWN_JOB = 2017  # Slurm's number for it
WAITING = frozenset({"PENDING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"})
_KEY = ("job_id", "submit")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which jobs: these, or of all that have not ended those that fit."""

    job_ids: Sequence[str] = ()
    pending: bool = False
    running: bool = False
    user: str | None = None

    def fits(self) -> pl.Expr:
        """Those of the controller's jobs that are meant."""
        states = pl.lit(not self.pending and not self.running)
        waits = pl.col("state").is_in(WAITING)
        if self.pending:
            states |= waits
        if self.running:
            states |= ~waits
        return states & pl.lit(True) if self.user is None else states & (pl.col("user") == self.user)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What is said of one job. Without a model's words (`probability`), `why_not` says the reason."""

    cluster: str
    job_id: str
    submit: int
    user: str | None
    partition: str | None
    state: str | None
    phase: str | None = None
    probability: float | None = None
    threshold: float | None = None
    warns: bool | None = None
    cause: str | None = None  # the likeliest, if it fails
    cause_probability: float | None = None  # of failing of it
    base_rate: float | None = None
    learnt_from: int | None = None  # jobs
    model: str | None = None
    version: int | None = None
    why_not: str | None = None
    note: str | None = None


@dataclass(frozen=True)
class Champion:
    """The model that serves at a phase."""

    name: ModelName
    version: int
    folder: Path

    @cached_property
    def bundle(self) -> Bundle:
        """Loaded, every file held against its hash."""
        return Bundle.load(self.folder)


def fetch(scheduler: Scheduler, wanted: Wanted) -> list[Batch]:
    """The jobs as the scheduler has them now; one question for all, or one for each id."""
    if not wanted.job_ids:
        batches = list(scheduler.live_jobs())
        return [Batch(b.kind, b.frame.filter(pl.col("outcome").is_null() & wanted.fits())) for b in batches]
    found: list[Batch] = []
    for job_id in dict.fromkeys(wanted.job_ids):
        batches = [batch for batch in scheduler.job(job_id) if batch.frame.height]
        if not batches:
            raise RefusedError(f"job {job_id}: neither slurmctld nor accounting knows it", UNKNOWN_JOB)
        found += batches
    return found


def predict(
    store: Store,
    scheduler: Scheduler,
    registry: Registry,
    wanted: Wanted,
    *,
    timezone: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Prediction]:
    """What is said of the jobs, in the order in which they were asked for."""
    batches = fetch(scheduler, wanted)
    keep(store, batches, timezone=timezone)
    frames = [batch.frame for batch in batches if batch.frame.height]
    if not frames:
        return []
    jobs = _latest(pl.concat(frames))
    oracle = _Oracle(store, registry, progress)
    return [
        prediction
        for (cluster,), group in jobs.group_by("cluster", maintain_order=True)
        for prediction in oracle.about(str(cluster), group)
    ]


def _latest(jobs: pl.DataFrame) -> pl.DataFrame:
    """Each job once, of a requeued one its latest run."""
    newest = pl.col("submit") == pl.col("submit").max().over("cluster", "job_id")
    return jobs.filter(newest).unique(["cluster", "job_id"], keep="last", maintain_order=True)


class _Oracle:
    """Reads each table and loads each model once, when the first job needs it."""

    def __init__(self, store: Store, registry: Registry, progress: Callable[[int, int], None] | None) -> None:
        self._store, self._registry, self._progress = store, registry, progress
        self._tables: dict[tuple[str, str, str], Table] = {}

    def about(self, cluster: str, jobs: pl.DataFrame) -> Iterable[Prediction]:
        """What is said of some jobs of one cluster."""
        ended = pl.col("outcome").is_not_null()
        waits = pl.col("state").is_in(WAITING) | pl.col("start").is_null()
        phase = pl.when(ended).then(None).when(waits).then(pl.lit("submit")).otherwise(pl.lit("start"))
        # An array that waits is in the store as its tasks: the first speaks for it.
        first = split_arrays(jobs.with_row_index("_row")).unique("_row", keep="first").sort("_row")["job_id"]
        rows = jobs.with_columns(phase=phase, _first=first)
        said: dict[str, Prediction] = {}
        for (at,), group in rows.group_by("phase"):
            for prediction in self._at(cluster, at, group):
                said[prediction.job_id] = prediction
        return [said[job_id] for job_id in jobs["job_id"]]

    def _at(self, cluster: str, phase: object, jobs: pl.DataFrame) -> Iterable[Prediction]:
        facts = [
            {name: row[name] for name in ("cluster", "job_id", "submit", "user", "partition", "state")}
            for row in jobs.iter_rows(named=True)
        ]
        if phase is None:
            return [Prediction(**fact, why_not="it has ended") for fact in facts]
        champion = self._champion(cluster, str(phase))
        served, bundle = champion.name.phase, champion.bundle
        note = None if served == phase else f"there is no model for {phase}: it is the one for {served}"
        table = self._table(cluster, served, bundle.facts.population)
        keys = jobs.select(pl.col("_first").alias("job_id"), "submit")
        places = keys.join(
            table.about.select(_KEY).with_row_index("_at"), on=_KEY, how="left", maintain_order="left"
        )
        rows = places["_at"].to_numpy().astype(np.int64)
        part = table.rows(rows)
        matrix = bundle.assembly.matrix(part)
        p = bundle.probability(matrix)
        why = bundle.abstention.why({name: part.column(name) for name in part.names})
        causes = bundle.causes.outcomes(p, matrix) if bundle.causes else {}
        return [
            Prediction(
                **fact,
                phase=served,
                probability=float(p[row]),
                threshold=bundle.chosen.value,
                warns=why[row] is None and bool(p[row] >= bundle.chosen.value),
                cause=(likeliest := max(causes, key=lambda c: causes[c][row])) if causes else None,
                cause_probability=float(causes[likeliest][row]) if causes else None,
                base_rate=bundle.base_rate,
                learnt_from=bundle.jobs,
                model=str(champion.name),
                version=champion.version,
                why_not=why[row],
                note=note,
            )
            for row, fact in enumerate(facts)
        ]

    def _champion(self, cluster: str, phase: str) -> Champion:
        """Of the phase, else, of a job that runs, the one for submit."""
        for at in dict.fromkeys((phase, "submit")):
            for feature_set in FEATURE_SETS:
                name = ModelName(cluster, at, feature_set)
                try:
                    folder = self._registry.champion(cluster, at, feature_set)
                except RegistryError:
                    continue
                served = self._registry.serving.served(name)
                assert served is not None
                return Champion(name, served.version, folder)
        raise RegistryError(
            f"no model serves for cluster {cluster} at {phase}: `forewarn train` makes one from its history; "
            "`forewarn models list` shows whether one waits to be promoted"
        )

    def _table(self, cluster: str, phase: str, population: str) -> Table:
        key = cluster, phase, population
        if key not in self._tables:
            self._tables[key] = read_table(
                self._store, cluster, phase, POPULATIONS[population], self._progress
            )
        return self._tables[key]
