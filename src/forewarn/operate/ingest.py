"""Several sources into the store, one after the other, and what is to be known of them afterwards."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from forewarn.config import Config, time_zone
from forewarn.errors import NoGoodRowError, UsageError
from forewarn.features.missing_fields import MissingField
from forewarn.operate.ingest_file import IngestReport, ingest, review, source_of
from forewarn.operate.workspace import Workspace
from forewarn.progress import Watch, unwatched
from forewarn.sources.base import Source, SourceOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestResult:
    """What became of each source, and which request fields give the outcome away."""

    files: tuple[IngestReport, ...]
    findings: tuple[MissingField, ...]

    @property
    def new(self) -> int:
        """Observations that were not there before."""
        return sum(file.new for file in self.files)

    @property
    def clusters(self) -> tuple[str, ...]:
        """The clusters that they speak of."""
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
    watch: Watch = unwatched,
    each: Callable[[IngestReport, Source], None] = lambda *_: None,
    last: Callable[[IngestResult], None] = lambda _: None,
) -> IngestResult:
    """Read sources like ``sacct:FILE`` into the store. Each is read whole or not at all.

    Parameters
    ----------
    cluster, timezone
        Of records that name none.
    fields
        The column names of sacct text without a header line.
    status
        How SWF's status is read: swf, exit-code, or 0=failed,1=completed.
    skip_bad
        Put bad rows into a rejects file, `rejects` or one in the home, and read the rest.
    each
        Hears of every source when it has been read.
    last
        Hears of all that were read, also where the next one fails.
    """
    if rejects and len(sources) > 1:
        raise UsageError("--rejects names one file, for one SOURCE; --skip-bad makes one for each")
    if rejects and not rejects.parent.is_dir():
        raise UsageError(f"--rejects: {rejects}: its folder {rejects.parent} is not there")
    given = SourceOptions(
        cluster=cluster,
        timezone=_zone(timezone),
        fields=tuple(fields) if fields else None,
        status=status,
    )
    opened = _opened(sources, workspace.config, given)
    store = workspace.writing()
    reports: list[IngestReport] = []
    try:
        for source in opened:
            name = _rejects_name(rejects, workspace.config.home, source) if skip_bad or rejects else None
            with watch(f"reading {source.path.name}") as far:
                reports.append(ingest(store, source, rejects=name, progress=far))
            each(reports[-1], source)
    finally:
        with watch("checking request fields"):
            findings = review(store, sorted({name for report in reports for name in report.clusters}))
        result = IngestResult(files=tuple(reports), findings=tuple(findings))
        last(result)
    empty = next((report for report in reports if report.bad and report.bad == report.rows), None)
    if empty is not None:
        raise NoGoodRowError(
            f"{empty.file}: every row is bad ({empty.bad:,}), so nothing was read; "
            f"{empty.rejects} says what is wrong with them"
        )
    return result


def _zone(timezone: str | None) -> str | None:
    try:
        return None if timezone is None else time_zone(timezone)
    except ValueError as wanted:
        raise UsageError(f"flag --timezone: timezone: {timezone!r} is not {wanted}") from None


def _opened(sources: Iterable[str], config: Config, given: SourceOptions) -> list[Source]:
    opened = [source_of(source, config, given) for source in sources]
    for flag, value, form in (("--fields", given.fields, "sacct"), ("--status", given.status, "swf")):
        if value and all(source.name != form for source in opened):
            raise UsageError(f"{flag} is for {form}:FILE, and no such SOURCE is given")
    return opened


def _rejects_name(given: Path | None, home: Path, source: Source) -> Callable[[], Path]:
    """A file that is not there yet: rejects of an earlier run may not have been looked at."""

    def free() -> Path:
        name = source.path.name.split(".")[0]
        numbered = (home / "rejects" / f"{name}-{n}.jsonl" for n in itertools.count(1))
        if given is not None:
            return given
        (home / "rejects").mkdir(exist_ok=True)
        return next(path for path in numbered if not path.exists())

    return free
