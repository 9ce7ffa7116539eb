"""Ingest one file of records, and review how a cluster's fields are treated.

Each file is one transaction: a file that fails leaves the store as it was before. `ingest.py` reads several
files, with flags.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import polars as pl

from forewarn.config import Config
from forewarn.errors import BadRow, BadRowError
from forewarn.features.missing_fields import MissingField, missing_field_report, with_missing_field_treatments
from forewarn.features.slurm_field_differences import with_slurm_treatments
from forewarn.files import PartialFile, writing
from forewarn.formatting import count
from forewarn.job.arrays import split_arrays
from forewarn.job.columns import KEYS
from forewarn.job.outcomes import Outcome
from forewarn.sources.base import (
    SLURM_SOURCES,
    Batch,
    Source,
    SourceOptions,
    cluster_from_path,
    open_source,
    parse_source,
)
from forewarn.store.base import ClusterFacts, Store, StoreWriter


@dataclass(slots=True, kw_only=True)
class IngestReport:
    """The counts of one file."""

    file: str
    new: int = 0
    same: int = 0  # records that the store had already
    new_jobs: int = 0  # that the store did not have
    first_of_cluster: bool = False  # whether the store had no jobs of the file's clusters
    bad: int = 0
    barred: int = 0  # records of erased users, which are not stored
    kinds: Counter[str] = field(default_factory=Counter)
    clusters: list[str] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)  # of jobs that ended
    unknown_states: Counter[str] = field(default_factory=Counter)
    first_submit: int | None = None
    last_submit: int | None = None
    notes: list[str] = field(default_factory=list)
    rejects: Path | None = None
    seconds: float = 0.0

    @property
    def rows(self) -> int:
        """The number of records in the file, good and bad."""
        return self.new + self.same + self.bad


def source_of(spec: str, config: Config, options: SourceOptions) -> Source:
    """Open the source that a text like ``swf:FILE`` names; the cluster's settings fill in `options`."""
    _, path = parse_source(spec)
    cluster = options.cluster or config.cluster
    settings = config.of_cluster(cluster or cluster_from_path(path))
    return open_source(
        spec,
        dataclasses.replace(
            options,
            cluster=cluster,
            timezone=options.timezone or settings.timezone,
            status=options.status or settings.swf_status,
        ),
    )


def ingest(
    store: Store,
    source: Source,
    *,
    rejects: Callable[[], Path] | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> IngestReport:
    """Write one source to the store.

    Without `rejects`, the first bad row raises `BadRowError`. With it, bad rows go to the file that it
    returns, called at the first of them, and the rest is written. `progress` receives the rows read so far.
    """
    begin = time.monotonic()
    report = IngestReport(file=str(source.path))
    clusters = store.clusters()
    with _Rejects(rejects) as rejected, store.writing() as writer:
        before = store.count()
        for batch in source.batches():
            good, bad = _write(writer, batch, source, report)
            if bad and rejects is None:
                raise BadRowError(min(bad, key=lambda row: row.line))
            rejected.write(bad)
            report.bad += len(bad)
            _count(report, batch.kind, good)
            progress(report.rows)
        report.notes.extend(source.notes)
        if report.barred:
            report.notes.append(f"{count(report.barred, 'record')} of erased users: not stored")
        for cluster in report.clusters:
            if set(report.kinds) != {"program"}:
                _describe(writer, cluster, clusters.get(cluster), source, report)
            elif cluster not in clusters:
                report.notes.append(
                    f"{cluster}: the store has no jobs of this cluster, so its programs have no effect yet; "
                    "if XALT names the cluster differently than Slurm, pass Slurm's name with --cluster"
                )
    report.new_jobs = store.count() - before
    report.first_of_cluster = not any(cluster in clusters for cluster in report.clusters)
    report.rejects = rejected.path
    report.seconds = time.monotonic() - begin
    return report


def review_missing_fields(store: Store, clusters: Iterable[str]) -> list[MissingField]:
    """Find request fields whose absence reveals the outcome, and store how features must treat them."""
    findings: list[MissingField] = []
    for cluster in clusters:
        if cluster not in store.clusters():
            continue  # only programs of it were read so far
        of_cluster = missing_field_report(store, cluster)
        facts = store.clusters()[cluster]
        new_facts = with_missing_field_treatments(facts, of_cluster)
        if new_facts != facts:
            with store.writing() as writer:
                writer.describe_cluster(cluster, new_facts)
        findings += of_cluster
    return findings


def has_outdated_treatments(store: Store, cluster: str) -> bool:
    """Check whether an older version read Slurm's files without the field treatments of a live Slurm."""
    facts = store.clusters()[cluster]
    if with_slurm_treatments(facts) == facts:
        return False
    frames = store.scan(cluster=cluster, columns=["source"])
    return not SLURM_SOURCES.isdisjoint(source for frame in frames for source in frame["source"].unique())


def apply_slurm_treatments(store: Store, cluster: str) -> None:
    """Store the field treatments of a cluster whose records are Slurm's."""
    with store.writing() as writer:
        writer.describe_cluster(cluster, with_slurm_treatments(store.clusters()[cluster]))


def _write(
    writer: StoreWriter, batch: Batch, source: Source, report: IngestReport
) -> tuple[pl.DataFrame, list[BadRow]]:
    """Write a batch; return the good rows, and the bad ones, among them those that contradict another row."""
    frame = split_arrays(batch.frame) if batch.kind == "job" else batch.frame
    result = writer.observe(batch.kind, frame, file=str(source.path))
    report.new += result.new
    report.same += result.same
    report.barred += result.barred
    bad = list(batch.bad)
    key = KEYS[batch.kind]
    for line, *values in result.conflicts.select("line", *key).iter_rows():
        record = ", ".join(f"{name} {value}" for name, value in zip(key, values, strict=True))
        bad.append(source.bad(line, key[1], f"contradicts another row of this file about {record}"))
    if result.conflicts.is_empty():
        return frame, bad
    return frame.join(result.conflicts, on="line", how="anti"), bad


def _count(report: IngestReport, kind: str, frame: pl.DataFrame) -> None:
    report.kinds[kind] += frame.height
    report.clusters += [c for c in frame["cluster"].unique(maintain_order=True) if c not in report.clusters]
    if kind != "job" or frame.is_empty():
        return
    for outcome, jobs in frame["outcome"].drop_nulls().value_counts().iter_rows():
        report.outcomes[outcome] += jobs
    unknown = frame.filter(pl.col("outcome") == Outcome.UNKNOWN)["state"].drop_nulls()
    for state, jobs in unknown.value_counts().iter_rows():
        report.unknown_states[state] += jobs
    first, last = frame.select(pl.col("submit").min(), pl.col("submit").max().alias("last")).row(0)
    report.first_submit = first if report.first_submit is None else min(first, report.first_submit)
    report.last_submit = last if report.last_submit is None else max(last, report.last_submit)


def _describe(
    writer: StoreWriter, cluster: str, stored: ClusterFacts | None, source: Source, report: IngestReport
) -> None:
    """Store the field treatments and the time zone: the configured one, else the stored, else the file's."""
    configured = source.options.timezone
    facts = stored or ClusterFacts(timezone=source.timezone)
    if source.name in SLURM_SOURCES:
        facts = with_slurm_treatments(facts)
    facts = dataclasses.replace(facts, timezone=configured or facts.timezone)
    if facts != stored:
        writer.describe_cluster(cluster, facts)
    if stored is None:
        return
    if configured is not None and configured != stored.timezone:
        report.notes.append(f"{cluster}: the time zone is now {configured}; it was {stored.timezone}")
    elif configured is None and source.timezone not in ("UTC", stored.timezone):
        report.notes.append(
            f"{cluster}: this file has time zone {source.timezone}, the store has {stored.timezone} and "
            "keeps it; to change it, ingest again with --timezone"
        )


class _Rejects:
    """The file of bad rows: created at the first of them, removed when the write fails."""

    def __init__(self, name: Callable[[], Path] | None) -> None:
        self.path: Path | None = None
        self._name = name
        self._file: IO[str] | None = None

    def write(self, rows: list[BadRow]) -> None:
        if rows and self._file is None and self._name is not None:
            self.path = self._name()
            with writing(self.path):
                self._partial = PartialFile(self.path, private=True)  # other people's rows
            self._file = self._partial.path.open("w", encoding="utf-8")
        if self._file is not None:
            self._file.writelines(
                json.dumps(dataclasses.asdict(row), ensure_ascii=False) + "\n" for row in rows
            )

    def __enter__(self) -> _Rejects:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if self._file is not None:
            self._file.close()
            if error is None:
                self._partial.put_in_place()
            self._partial.drop()
