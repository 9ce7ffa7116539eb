"""Ingest one or several sources given as text, such as ``sacct:FILE``, and review the request fields.

The work on each file is in `ingest_file.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from forewarn.config import Config, time_zone
from forewarn.errors import NoGoodRowError, UsageError
from forewarn.features.missing_fields import MissingField
from forewarn.operate.ingest_file import IngestReport, ingest, review_missing_fields, source_of
from forewarn.operate.workspace import Workspace
from forewarn.progress import ShowProgress, no_progress
from forewarn.sources.base import Source, SourceOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestResult:
    """The report of each source, and the request fields whose absence reveals the outcome."""

    files: tuple[IngestReport, ...]
    findings: tuple[MissingField, ...]

    @property
    def new(self) -> int:
        """The number of observations that the store did not have."""
        return sum(file.new for file in self.files)

    @property
    def clusters(self) -> tuple[str, ...]:
        """The clusters of the records."""
        return tuple(sorted({name for file in self.files for name in file.clusters}))


def ingest_sources(
    workspace: Workspace,
    *sources: str,
    cluster: str | None = None,
    timezone: str | None = None,
    fields: Sequence[str] | None = None,
    status: str | None = None,
    skip_bad: bool = False,
    rejects: Path | None = None,
    watch: ShowProgress = no_progress,
    each: Callable[[IngestReport, Source], None] = lambda *_: None,
    last: Callable[[IngestResult], None] = lambda _: None,
) -> IngestResult:
    """Read sources like ``sacct:FILE`` into the store; each of them completely or not at all.

    Parameters
    ----------
    cluster, timezone
        For records that do not name one.
    fields
        The column names of sacct text without a header line.
    status
        How to interpret the status of SWF: swf, exit-code, or 0=failed,1=completed.
    skip_bad
        Write bad rows to a rejects file, `rejects` or one in the home, and read the rest.
    each
        Called after each source.
    last
        Called with the result of all sources read, even if the next one failed.
    """
    if rejects and len(sources) > 1:
        raise UsageError("--rejects takes one file for one SOURCE; use --skip-bad for several")
    if rejects and not rejects.parent.is_dir():
        raise UsageError(f"--rejects: {rejects}: folder {rejects.parent} does not exist")
    options = SourceOptions(
        cluster=cluster,
        timezone=_zone(timezone),
        fields=tuple(fields) if fields else None,
        status=status,
    )
    opened = _open_all(sources, workspace.config, options)
    store = workspace.writing()
    reports: list[IngestReport] = []
    try:
        for source in opened:
            name = _rejects_name(rejects, workspace.config.home, source) if skip_bad or rejects else None
            with watch(f"reading {source.path.name}") as progress:
                reports.append(ingest(store, source, rejects=name, progress=progress))
            each(reports[-1], source)
    finally:
        with watch("checking request fields"):
            findings = review_missing_fields(
                store, sorted({name for report in reports for name in report.clusters})
            )
        result = IngestResult(files=tuple(reports), findings=tuple(findings))
        last(result)
    empty = next((report for report in reports if report.bad and report.bad == report.rows), None)
    if empty is not None:
        raise NoGoodRowError(
            f"{empty.file}: all {empty.bad:,} rows are bad; {empty.rejects} lists the errors"
        )
    return result


def _zone(timezone: str | None) -> str | None:
    try:
        return None if timezone is None else time_zone(timezone)
    except ValueError as expected:
        raise UsageError(f"flag --timezone: timezone: {timezone!r} is not {expected}") from None


def _open_all(specs: Iterable[str], config: Config, options: SourceOptions) -> list[Source]:
    sources = [source_of(spec, config, options) for spec in specs]
    for flag, value, form in (("--fields", options.fields, "sacct"), ("--status", options.status, "swf")):
        if value and all(source.name != form for source in sources):
            raise UsageError(f"{flag}: applies to {form}:FILE only, and no SOURCE is one")
    return sources


def _rejects_name(path: Path | None, home: Path, source: Source) -> Callable[[], Path]:
    """Return a function that names the rejects file: `path`, or a new one, to keep those of earlier runs."""

    def unused_name() -> Path:
        if path is not None:
            return path
        name = source.path.name.split(".")[0]
        numbered = (home / "rejects" / f"{name}-{n}.jsonl" for n in itertools.count(1))
        (home / "rejects").mkdir(exist_ok=True)
        return next(candidate for candidate in numbered if not candidate.exists())

    return unused_name
