"""Files of records into the store.

Each file is one write: all of it or nothing. A file that fails leaves the store as it was before that
file; files before it in the same call stay.
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
from forewarn.features.missing_fields import MissingField, absence_report, with_policies
from forewarn.features.slurm_field_differences import with_slurm_policies
from forewarn.files import PartialFile, writing
from forewarn.job.arrays import split_arrays
from forewarn.job.columns import KEYS
from forewarn.job.outcomes import Outcome
from forewarn.sources.base import OF_SLURM, Batch, Source, SourceOptions, named_by, open_source, parsed
from forewarn.store.base import ClusterFacts, Store, StoreWriter


@dataclass(slots=True, kw_only=True)
class IngestReport:
    """What became of one file."""

    file: str
    new: int = 0
    same: int = 0  # were in the store already
    new_jobs: int = 0  # that the store knew nothing of before
    first_of_cluster: bool = False  # whether the store knew no job of its clusters before
    bad: int = 0
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
        """Records that the file held, good and bad."""
        return self.new + self.same + self.bad


def source_of(spec: str, config: Config, given: SourceOptions) -> Source:
    """The source that a text like ``swf:FILE`` names, read as flags and the cluster's table say."""
    _, path = parsed(spec)
    cluster = given.cluster or config.cluster
    own = config.of_cluster(cluster or named_by(path))
    return open_source(
        spec,
        dataclasses.replace(
            given,
            cluster=cluster,
            timezone=given.timezone or own.timezone,
            status=given.status or own.swf_status,
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

    Without `rejects`, the first bad row ends it with `BadRowError`. With it, bad rows go to the file
    that it names when the first one is met, and the rest is written. `progress` hears of the rows read.
    """
    began = time.monotonic()
    report = IngestReport(file=str(source.path))
    known = store.clusters()
    with _Rejects(rejects) as rejected, store.writing() as writer:
        before = store.count()
        for batch in source.batches():
            taken, bad = _write(writer, batch, source, report)
            if bad and rejects is None:
                raise BadRowError(min(bad, key=lambda row: row.line))
            rejected.write(bad)
            report.bad += len(bad)
            _count(report, batch.kind, taken)
            progress(report.rows)
        report.notes.extend(source.notes)
        for cluster in report.clusters:
            if set(report.kinds) != {"program"}:
                _describe(writer, cluster, known.get(cluster), source, report)
            elif cluster not in known:
                report.notes.append(
                    f"{cluster}: no job of this cluster is in the store, so its programs tell nothing yet; "
                    "--cluster gives Slurm's name of the cluster where XALT has another one"
                )
    report.new_jobs = store.count() - before
    report.first_of_cluster = not any(cluster in known for cluster in report.clusters)
    report.rejects = rejected.path
    report.seconds = time.monotonic() - began
    return report


def review(store: Store, clusters: Iterable[str]) -> list[MissingField]:
    """Find request fields whose absence gives the outcome away, and keep how features are to see them."""
    findings: list[MissingField] = []
    for cluster in clusters:
        if cluster not in store.clusters():
            continue  # nothing of it is there but programs
        found = absence_report(store, cluster)
        facts = store.clusters()[cluster]
        told = with_policies(facts, found)
        if told != facts:
            with store.writing() as writer:
                writer.describe_cluster(cluster, told)
        findings += found
    return findings


def is_read_otherwise(store: Store, cluster: str) -> bool:
    """Whether an older version read Slurm's files without the field policies that it has for a live Slurm."""
    facts = store.clusters()[cluster]
    if with_slurm_policies(facts) == facts:
        return False
    frames = store.scan(cluster=cluster, columns=["source"])
    return not OF_SLURM.isdisjoint(source for frame in frames for source in frame["source"].unique())


def read_as_slurm(store: Store, cluster: str) -> None:
    """Set the field policies of a cluster whose records are Slurm's."""
    with store.writing() as writer:
        writer.describe_cluster(cluster, with_slurm_policies(store.clusters()[cluster]))


def _write(
    writer: StoreWriter, batch: Batch, source: Source, report: IngestReport
) -> tuple[pl.DataFrame, list[BadRow]]:
    """Write a batch: the rows that were taken, and those that were not, by themselves or by another row."""
    frame = split_arrays(batch.frame) if batch.kind == "job" else batch.frame
    written = writer.observe(batch.kind, frame, file=str(source.path))
    report.new += written.new
    report.same += written.same
    bad = list(batch.bad)
    key = KEYS[batch.kind]
    for line, *values in written.conflicts.select("line", *key).iter_rows():
        named = ", ".join(f"{name} {value}" for name, value in zip(key, values, strict=True))
        bad.append(source.bad(line, key[1], f"another row of this file says otherwise of {named}"))
    if written.conflicts.is_empty():
        return frame, bad
    return frame.join(written.conflicts, on="line", how="anti"), bad


def _count(report: IngestReport, kind: str, frame: pl.DataFrame) -> None:
    report.kinds[kind] += frame.height
    report.clusters += [c for c in frame["cluster"].unique(maintain_order=True) if c not in report.clusters]
    if kind != "job" or frame.is_empty():
        return
    for outcome, count in frame["outcome"].drop_nulls().value_counts().iter_rows():
        report.outcomes[outcome] += count
    unknown = frame.filter(pl.col("outcome") == Outcome.UNKNOWN)["state"].drop_nulls()
    for state, count in unknown.value_counts().iter_rows():
        report.unknown_states[state] += count
    first, last = frame.select(pl.col("submit").min(), pl.col("submit").max().alias("last")).row(0)
    report.first_submit = first if report.first_submit is None else min(first, report.first_submit)
    report.last_submit = last if report.last_submit is None else max(last, report.last_submit)


def _describe(
    writer: StoreWriter, cluster: str, known: ClusterFacts | None, source: Source, report: IngestReport
) -> None:
    """Set how fields are read, and the zone: the site's word, else what was known, else the file's."""
    said = source.options.timezone
    facts = known or ClusterFacts(timezone=source.timezone)
    if source.name in OF_SLURM:
        facts = with_slurm_policies(facts)
    facts = dataclasses.replace(facts, timezone=said or facts.timezone)
    if facts != known:
        writer.describe_cluster(cluster, facts)
    if known is None:
        return
    if said is not None and said != known.timezone:
        report.notes.append(f"{cluster}: the time zone is now {said}; it was {known.timezone}")
    elif said is None and source.timezone not in ("UTC", known.timezone):
        report.notes.append(
            f"{cluster}: this file says time zone {source.timezone}, the store has {known.timezone} and "
            "keeps it; to change it, ingest again with --timezone"
        )


class _Rejects:
    """The file of bad rows: made when the first one comes, gone again when the write fails."""

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
