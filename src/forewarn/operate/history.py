"""The history to learn from: a cluster of the store, or a file or live Slurm in a store of its own."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from forewarn.config import Config
from forewarn.errors import BadRow, NoGoodRowError, StoreError, UsageError
from forewarn.job.moments import unix_seconds
from forewarn.learn.data.population import POPULATIONS, Population
from forewarn.learn.data.table import JobTable, read_table
from forewarn.operate.collector import BEGINNING, read_history
from forewarn.operate.ingest_file import ingest, is_read_otherwise, read_as_slurm, review, source_of
from forewarn.operate.workspace import Workspace, chosen_cluster
from forewarn.progress import Note, Watch, logged, unwatched
from forewarn.sources.base import SourceOptions
from forewarn.sources.slurm.connect import connect
from forewarn.store.base import Store
from forewarn.store.opening import open_store

LIVE = "slurm"
_NOT_SWF = "--status: is for reading an SWF file; name one, as in swf:FILE"


@dataclass(frozen=True, slots=True)
class History:
    """The jobs of one cluster, in a store that is open."""

    store: Store
    cluster: str

    @property
    def timezone(self) -> str:
        """Of the cluster's clock."""
        return self.store.clusters()[self.cluster].timezone

    def table(self, phase: str, population: Population, watch: Watch = unwatched) -> JobTable:
        """Read the jobs as a model learns them."""
        with watch(f"features at {phase}") as far:
            return read_table(self.store, self.cluster, phase, population, far)


def population_of(name: str) -> Population:
    """Look up which jobs take part, and which of them count as failures."""
    if name not in POPULATIONS:
        raise UsageError(f"--policy: no policy {name!r}; there are {', '.join(POPULATIONS)}")
    return POPULATIONS[name]


@contextmanager
def opened_history(
    workspace: Workspace,
    source: str | None = None,
    cluster: str | None = None,
    *,
    status: str | None = None,
    watch: Watch = unwatched,
    note: Note = logged,
) -> Iterator[History]:
    """Open the history of a cluster.

    Parameters
    ----------
    source
        None: the site's store. Else what is read into a temporary store, which is gone at the end: a file
        (``swf:FILE``, ``sacct:FILE``, …) or the accounting of the configured Slurm (``slurm:``,
        ``slurm:now-90days``). Bad rows are left out, with a note.
    cluster
        May be left out where there is but one; for a file whose records name none, it is their name.
    status
        How an SWF file's status is read.
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
            given = SourceOptions(cluster=cluster, status=status)
            _read_file(store, source, config, given, Path(folder, "rejects"), watch, note)
        elif status is not None:
            raise UsageError(_NOT_SWF)
        else:
            own = dataclasses.replace(config, cluster=cluster or config.cluster)
            _read_live(store, source, own, watch)
        known = store.clusters()
        for finding in review(store, known):
            note(finding.message)
        yield History(store, chosen_cluster(known, cluster, source))


def read_alike(workspace: Workspace, cluster: str | None, note: Note = logged) -> None:
    """Have a cluster's fields read as those of a live Slurm, where an older version read Slurm's files."""
    name = workspace.cluster(cluster)
    if is_read_otherwise(workspace.reading(), name):
        with suppress(StoreError):
            read_as_slurm(workspace.writing(), name)
            note(f"{name}: its fields are read as those of a live Slurm from now on; train each model again")


def _read_file(
    store: Store, source: str, config: Config, given: SourceOptions, rejects: Path, watch: Watch, note: Note
) -> None:
    opened = source_of(source, config, given)
    with watch(f"reading {opened.path.name}") as far:
        report = ingest(store, opened, rejects=lambda: rejects, progress=far)
    if not report.rows:
        raise NoGoodRowError(f"{report.file}: there is no record in it to learn from")
    if report.bad:
        first = BadRow(**json.loads(rejects.read_text(encoding="utf-8").splitlines()[0]))
        if report.bad == report.rows:
            raise NoGoodRowError(f"{report.file}: all {report.bad:,} rows are bad, the first: {first}")
        left_out = f"{report.bad:,} of {report.rows:,} rows are bad and left out, the first: {first}"
        note(f"{report.file}: {left_out}")
    for message in report.notes:
        note(message)


def _read_live(store: Store, source: str, config: Config, watch: Watch) -> None:
    zone = config.of_cluster(config.cluster).timezone
    since = unix_seconds(source.partition(":")[2] or f"now-{BEGINNING}", zone or "UTC")
    with closing(connect(config)) as scheduler, watch("reading Slurm's accounting") as far:
        jobs = read_history(store, scheduler, since, timezone=zone, progress=far)
    if not jobs:
        raise NoGoodRowError(
            f"{source}: accounting knows no job since then; name an earlier time, slurm:TIME"
        )
