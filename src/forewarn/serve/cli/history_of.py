"""The history that a command learns from: a cluster's store, or a file or a live Slurm read into its own."""

from __future__ import annotations

import dataclasses
import json
import warnings
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from forewarn.config import Config
from forewarn.errors import BadRow, NoGoodRowError, StoreError, UsageError
from forewarn.job.outcomes import UnknownStateWarning
from forewarn.operate.collect import BEGINNING, read_history
from forewarn.operate.ingest import ingest, is_read_otherwise, read_as_slurm, review, source_of
from forewarn.serve.cli.common import store_of
from forewarn.serve.cli.moments import parse_moment
from forewarn.serve.cli.output import note
from forewarn.serve.cli.progress import progress
from forewarn.sources.base import Options
from forewarn.sources.connect import connect
from forewarn.store.base import Store
from forewarn.store.opening import open_store

LIVE = "slurm"


@contextmanager
def learning_store(
    spec: str | None, config: Config, cluster: str | None, *, status: str | None = None
) -> Iterator[tuple[Store, str]]:
    """A store and the cluster in it to learn from.

    With `spec` (``swf:FILE``, …, ``slurm:``, ``slurm:now-90days``) the file, or the accounting of the Slurm
    that is configured, is read into a temporary store, which is gone at the end; bad rows are left out,
    with a word. Without, it is the configured store. `cluster` may be left out where
    there is but one; for a file whose records name none, it is their name. `status` is how an SWF file's
    status is read.
    """
    if spec is None:
        if status is not None:
            raise UsageError("--status: is for reading an SWF file; name one, as in swf:FILE")
        store = store_of(config, read_only=True)
        try:
            yield store, _chosen(store.clusters(), cluster or config.cluster, "the store")
        finally:
            store.close()
        return
    with TemporaryDirectory(prefix="forewarn-") as folder:
        store = open_store(dataclasses.replace(config, home=Path(folder)))
        try:
            if spec.partition(":")[0] == LIVE:
                clusters = _read_live(store, spec, config, cluster, status)
            else:
                clusters = _read(store, spec, config, Options(cluster=cluster, status=status), Path(folder))
            yield store, _chosen(clusters, cluster, spec)
        finally:
            store.close()


def read_alike(config: Config, cluster: str | None) -> None:
    """Have a cluster's fields read as those of a live Slurm, where an older version read Slurm's files."""
    with store_of(config, read_only=True) as store:
        name = _chosen(store.clusters(), cluster or config.cluster, "the store")
        if not is_read_otherwise(store, name):
            return
    with suppress(StoreError), store_of(config) as writable:
        read_as_slurm(writable, name)
        note(f"{name}: its fields are read as those of a live Slurm from now on; train each model again")


def _read(store: Store, spec: str, config: Config, given: Options, folder: Path) -> list[str]:
    source = source_of(spec, config, given)
    with warnings.catch_warnings(), progress(f"reading {source.path.name}") as far:
        warnings.simplefilter("ignore", UnknownStateWarning)
        report = ingest(store, source, rejects=lambda: folder / "rejects", progress=far)
    if not report.rows:
        raise NoGoodRowError(f"{report.file}: there is no record in it to learn from")
    if report.rejects:
        first = BadRow(**json.loads(report.rejects.read_text(encoding="utf-8").splitlines()[0]))
        if report.bad == report.rows:
            raise NoGoodRowError(f"{report.file}: all {report.bad:,} rows are bad, the first: {first}")
        note(
            f"{report.file}: {report.bad:,} of {report.rows:,} rows are bad and left out, the first: {first}"
        )
    for message in report.notes:
        note(message)
    for finding in review(store, report.clusters):
        note(finding.message)
    return report.clusters


def _read_live(
    store: Store, spec: str, config: Config, cluster: str | None, status: str | None
) -> Collection[str]:
    if status is not None:
        raise UsageError("--status: is for reading an SWF file; name one, as in swf:FILE")
    config = dataclasses.replace(config, cluster=cluster or config.cluster)
    zone = config.of_cluster(config.cluster).timezone
    since = parse_moment(spec.partition(":")[2] or f"now-{BEGINNING}", zone or "UTC", datetime.now(UTC))
    with (
        warnings.catch_warnings(),
        closing(connect(config)) as scheduler,
        progress("reading Slurm's accounting") as far,
    ):
        warnings.simplefilter("ignore", UnknownStateWarning)
        jobs = read_history(store, scheduler, since, timezone=zone, progress=far)
    if not jobs:
        raise NoGoodRowError(f"{spec}: accounting knows no job since then; name an earlier time, slurm:TIME")
    clusters = store.clusters()
    for finding in review(store, clusters):
        note(finding.message)
    return clusters


def _chosen(known: Collection[str], asked: str | None, where: str) -> str:
    """The cluster that was asked for, or the only one."""
    if asked is None and len(known) == 1:
        return next(iter(known))
    there = ", ".join(sorted(known)) or "none: read some history with `forewarn ingest`"
    if asked is None:
        raise UsageError(f"--cluster: say which one of {where}; there are {there}")
    if asked not in known:
        raise UsageError(f"--cluster: no cluster {asked!r} in {where}; there are {there}")
    return asked
