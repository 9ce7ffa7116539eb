"""Open the history to learn from: a cluster of the store, or a file or live Slurm in a temporary store."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from forewarn.config import Config
from forewarn.errors import BadRow, NoGoodRowError, StoreError, UsageError
from forewarn.job.moments import unix_seconds
from forewarn.learn.data.population import POPULATIONS, Population
from forewarn.learn.data.table import JobTable, read_table
from forewarn.operate.accounting_position import DEFAULT_HISTORY
from forewarn.operate.ingest_file import (
    apply_slurm_treatments,
    has_outdated_treatments,
    ingest,
    review_missing_fields,
    source_of,
)
from forewarn.operate.observe import write_batches
from forewarn.operate.workspace import Workspace, choose_cluster
from forewarn.progress import Note, ShowProgress, log_note, no_progress
from forewarn.sources.base import SourceOptions
from forewarn.sources.slurm.connect import connect
from forewarn.sources.slurm.scheduler import Scheduler
from forewarn.store.base import Store
from forewarn.store.opening import open_store

LIVE = "slurm"
_NOT_SWF = "--status: applies to SWF files only; name one, as in swf:FILE"


@dataclass(frozen=True, slots=True)
class History:
    """The jobs of one cluster, in a store that is open."""

    store: Store
    cluster: str

    @property
    def timezone(self) -> str:
        """The cluster's time zone."""
        return self.store.clusters()[self.cluster].timezone

    def table(self, phase: str, population: Population, watch: ShowProgress = no_progress) -> JobTable:
        """Compute the features and labels that a model learns from."""
        with watch(f"features at {phase}") as progress:
            return read_table(self.store, self.cluster, phase, population, progress)


def population_of(name: str) -> Population:
    """Look up a population: the jobs that take part, and which of them count as failures."""
    if name not in POPULATIONS:
        raise UsageError(f"--population: no population {name!r}; choose from {', '.join(POPULATIONS)}")
    return POPULATIONS[name]


@contextmanager
def open_history(
    workspace: Workspace,
    source: str | None = None,
    cluster: str | None = None,
    *,
    status: str | None = None,
    watch: ShowProgress = no_progress,
    note: Note = log_note,
) -> Iterator[History]:
    """Open the history of a cluster.

    Parameters
    ----------
    source
        None: the site's store. Otherwise a file (``swf:FILE``, ``sacct:FILE``, …) or the accounting of the
        configured Slurm (``slurm:``, ``slurm:now-90days``), which is read into a temporary store. Bad rows
        are skipped, with a note.
    cluster
        None: the only one. For a file whose records name no cluster, it is their name.
    status
        How to interpret the status of an SWF file.
    """
    if source is None:
        if status is not None:
            raise UsageError(_NOT_SWF)
        yield History(workspace.reading(), workspace.cluster(cluster))
        return
    config = workspace.config
    with (
        TemporaryDirectory(prefix="forewarn-") as folder,
        open_store(dataclasses.replace(config, home=Path(folder))) as store,
    ):
        if source.partition(":")[0] != LIVE:
            options = SourceOptions(cluster=cluster, status=status)
            _read_file(store, source, config, options, Path(folder, "rejects"), watch, note)
        elif status is not None:
            raise UsageError(_NOT_SWF)
        else:
            _read_live(store, source, dataclasses.replace(config, cluster=cluster or config.cluster), watch)
        clusters = store.clusters()
        for finding in review_missing_fields(store, clusters):
            note(finding.message)
        yield History(store, choose_cluster(clusters, cluster, source))


def update_field_treatments(workspace: Workspace, cluster: str | None, note: Note = log_note) -> None:
    """Treat a cluster's fields as those of a live Slurm, if an older version ingested Slurm's files."""
    name = workspace.cluster(cluster)
    if has_outdated_treatments(workspace.reading(), name):
        with suppress(StoreError):
            apply_slurm_treatments(workspace.writing(), name)
            note(f"{name}: its fields are now treated as those of a live Slurm; train each model again")


def _read_file(
    store: Store,
    spec: str,
    config: Config,
    options: SourceOptions,
    rejects: Path,
    watch: ShowProgress,
    note: Note,
) -> None:
    source = source_of(spec, config, options)
    with watch(f"reading {source.path.name}") as progress:
        report = ingest(store, source, rejects=lambda: rejects, progress=progress)
    if not report.rows:
        raise NoGoodRowError(f"{report.file}: contains no records")
    if report.bad:
        first = BadRow(**json.loads(rejects.read_text(encoding="utf-8").splitlines()[0]))
        if report.bad == report.rows:
            raise NoGoodRowError(f"{report.file}: all {report.bad:,} rows are bad, the first: {first}")
        note(f"{report.file}: skipped {report.bad:,} of {report.rows:,} rows as bad, the first: {first}")
    for message in report.notes:
        note(message)


def _read_live(store: Store, source: str, config: Config, watch: ShowProgress) -> None:
    zone = config.of_cluster(config.cluster).timezone
    since = unix_seconds(source.partition(":")[2] or f"now-{DEFAULT_HISTORY}", zone or "UTC")
    with closing(connect(config)) as scheduler, watch("reading Slurm's accounting") as progress:
        jobs = read_accounting(store, scheduler, since, timezone=zone, progress=progress)
    if not jobs:
        raise NoGoodRowError(f"{source}: accounting has no jobs since then; use an earlier time, slurm:TIME")


def read_accounting(
    store: Store,
    scheduler: Scheduler,
    since: int,
    *,
    timezone: str | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> int:
    """Read a scheduler's accounting into a store once, up to now; return the number of records read."""
    jobs = 0
    for piece in scheduler.history(since):
        write_batches(store, [piece.batch], timezone=timezone)
        jobs += piece.batch.frame.height
        progress(jobs)
    return jobs
