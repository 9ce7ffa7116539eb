"""`forewarn ingest`: files of job records into the store."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from dataclasses import asdict, fields
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import click

from forewarn.errors import NoGoodRowError, UsageError
from forewarn.features.absence import Finding
from forewarn.job.outcomes import UnknownStateWarning
from forewarn.operate.ingest import Report, ingest, review, source_of
from forewarn.serve.cli.common import configured, home_option, json_option, store_of
from forewarn.serve.cli.filters import split
from forewarn.serve.cli.output import note, print_facts, print_json, shares
from forewarn.serve.cli.progress import progress
from forewarn.sources.base import Options, Source


@click.command("ingest")
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@home_option
@click.option(
    "-M", "--cluster", metavar="NAME", help="Cluster of records that name none, and of all of xalt:"
)
@click.option("--timezone", metavar="ZONE", help="Zone of times written without one, and of the cluster.")
@click.option("--fields", "names", metavar="LIST", help="Column names of sacct text without a header line.")
@click.option(
    "--status", metavar="HOW", help="How SWF status is read: swf, exit-code, or 0=failed,1=completed."
)
@click.option("--skip-bad", is_flag=True, help="Put bad rows into a rejects file and read the rest.")
@click.option(
    "--rejects",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Skip bad rows, and put them here.  [default: HOME/rejects/NAME-1.jsonl]",
)
@json_option
def command(
    sources: tuple[str, ...],
    home: Path | None,
    cluster: str | None,
    timezone: str | None,
    names: str | None,
    status: str | None,
    skip_bad: bool,
    rejects: Path | None,
    as_json: bool,
) -> None:
    """Read job records from files into the store.

    A SOURCE is a format and a file, plain or gzipped: swf:FILE, sacct:FILE, slurmrestd:FILE,
    scontrol:FILE, jobcomp:FILE (documents of Slurm's jobcomp/elasticsearch), nrel:FILE or parquet:FILE;
    or xalt:FOLDER, records of the programs that jobs ran.
    Reading the same file again changes nothing. Each file is read whole or not at all: at the first bad
    row the store is left as it was before that file.

    \b
    Examples:
      forewarn ingest sacct:history.txt
      forewarn ingest --cluster blue swf:SDSC-BLUE-2000-4.2-cln.swf.gz
      forewarn ingest --cluster lab xalt:/var/xalt/records
      forewarn ingest jobcomp:slurm-index.jsonl
      forewarn ingest --skip-bad --timezone Europe/Zurich sacct:2023.txt sacct:2024.txt.gz
    """
    if rejects and len(sources) > 1:
        raise UsageError("--rejects names one file, for one SOURCE; --skip-bad makes one for each")
    if rejects and not rejects.parent.is_dir():
        raise UsageError(f"--rejects: {rejects}: its folder {rejects.parent} is not there")
    config = configured(home=home, cluster=cluster, timezone=timezone)
    given = Options(
        cluster=cluster,
        timezone=config.timezone if timezone else None,
        fields=tuple(split([names])) if names else None,
        status=status,
    )
    opened = [source_of(spec, config, given) for spec in sources]
    for flag, value, form in (("--fields", names, "sacct"), ("--status", status, "swf")):
        if value and all(source.name != form for source in opened):
            raise UsageError(f"{flag} is for {form}:FILE, and no such SOURCE is given")
    reports: list[Report] = []
    warnings.simplefilter("ignore", UnknownStateWarning)  # the summary says it, with how many jobs
    store = store_of(config)
    try:
        for source in opened:
            with progress(f"reading {source.path.name}") as report:
                name = _rejects_name(rejects, config.home, source) if skip_bad or rejects else None
                reports.append(ingest(store, source, rejects=name, progress=report))
            if not as_json:
                _show(reports[-1], source.timezone)
    finally:
        with progress("checking request fields"):
            findings = review(store, sorted({name for report in reports for name in report.clusters}))
        store.close()
        if as_json:
            print_json(_as_json(reports, findings))
    for finding in () if as_json else findings:
        note(finding.message)
    empty = next((report for report in reports if report.bad and report.bad == report.rows), None)
    if empty is not None:
        raise NoGoodRowError(
            f"{empty.file}: every row is bad ({empty.bad:,}), so nothing was read; "
            f"{empty.rejects} says what is wrong with them"
        )


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


def _show(report: Report, zone: str) -> None:
    """The summary of one file: what was read to stdout, what should be known to stderr."""
    kinds = ", ".join(_counted(report, kind, n) for kind, n in report.kinds.items() if n)
    print_facts(
        f"{report.file}: {kinds or 'no records'} in {report.seconds:.1f} s",
        {
            "rows": f"{report.new:,} new, {report.same:,} already there, {report.bad:,} bad",
            "cluster": ", ".join(report.clusters) or None,
            "submitted": _span(report, zone),
            "outcomes": shares(report.outcomes),
            "rejects": None if report.rejects is None else str(report.rejects),
        },
    )
    for message in report.notes:
        note(message)
    if report.unknown_states:
        states = ", ".join(
            f"{state} ({_number(n, 'row')})" for state, n in report.unknown_states.most_common(6)
        )
        more = ", …" if len(report.unknown_states) > 6 else ""
        note(f"states without a known meaning, kept with outcome `unknown`: {states}{more}")


def _counted(report: Report, kind: str, rows: int) -> str:
    """Rows of a kind in words; how many jobs they speak of where that is known.

    >>> _counted(Report(file="a", new_jobs=1), "job", 1), _counted(Report(file="a"), "node", 2)
    ('1 job', '2 nodes')
    >>> _counted(Report(file="a", new_jobs=2, first_of_cluster=True), "job", 3)
    '3 observations of 2 jobs'
    >>> _counted(Report(file="a", new_jobs=1), "job", 3)
    '3 observations of jobs, 1 new job'
    """
    if kind != "job" or rows == report.new_jobs:
        return _number(rows, kind)
    seen = _number(rows, "observation")
    if report.first_of_cluster:
        return f"{seen} of {_number(report.new_jobs, 'job')}"
    return f"{seen} of jobs, {_number(report.new_jobs, 'new job')}"


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _span(report: Report, zone: str) -> str | None:
    if report.first_submit is None or report.last_submit is None:
        return None
    first, last = (
        datetime.fromtimestamp(t, ZoneInfo(zone)).date() for t in (report.first_submit, report.last_submit)
    )
    return f"{first} to {last} ({zone})"


def _as_json(reports: list[Report], findings: list[Finding]) -> dict[str, Any]:
    return {
        # Field by field: asdict would take the counters apart.
        "files": [
            {"rows": report.rows} | {f.name: getattr(report, f.name) for f in fields(report)}
            for report in reports
        ],
        "findings": [asdict(finding) | {"message": finding.message} for finding in findings],
    }
