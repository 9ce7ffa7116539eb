"""`forewarn ingest`: files of job records into the store."""

from __future__ import annotations

from dataclasses import asdict, fields
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import click

from forewarn.operate.ingest import IngestResult, ingest_sources
from forewarn.operate.ingest_file import IngestReport
from forewarn.operate.job_filters import split
from forewarn.serve.cli.commands.common import home_option, json_option, opened
from forewarn.serve.cli.terminal.output import note, print_facts, print_json, shares
from forewarn.serve.cli.terminal.progress import progress
from forewarn.sources.base import Source


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
    names: str | None,
    as_json: bool,
    **how: Any,
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
    with opened(home=home, cluster=how["cluster"], timezone=how["timezone"]) as workspace:
        ingest_sources(
            workspace,
            *sources,
            fields=split([names]) if names else None,
            watch=progress,
            each=(lambda *_: None) if as_json else _show,
            last=_print_json if as_json else _note_findings,
            **how,
        )


def _show(report: IngestReport, source: Source) -> None:
    """The summary of one file: what was read to stdout, what should be known to stderr."""
    kinds = ", ".join(_counted(report, kind, n) for kind, n in report.kinds.items() if n)
    print_facts(
        f"{report.file}: {kinds or 'no records'} in {report.seconds:.1f} s",
        {
            "rows": f"{report.new:,} new, {report.same:,} already there, {report.bad:,} bad",
            "cluster": ", ".join(report.clusters) or None,
            "submitted": _span(report, source.timezone),
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


def _counted(report: IngestReport, kind: str, rows: int) -> str:
    """Rows of a kind in words; how many jobs they speak of where that is known.

    >>> _counted(IngestReport(file="a", new_jobs=1), "job", 1), _counted(IngestReport(file="a"), "node", 2)
    ('1 job', '2 nodes')
    >>> _counted(IngestReport(file="a", new_jobs=2, first_of_cluster=True), "job", 3)
    '3 observations of 2 jobs'
    >>> _counted(IngestReport(file="a", new_jobs=1), "job", 3)
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


def _span(report: IngestReport, zone: str) -> str | None:
    if report.first_submit is None or report.last_submit is None:
        return None
    first, last = (
        datetime.fromtimestamp(t, ZoneInfo(zone)).date() for t in (report.first_submit, report.last_submit)
    )
    return f"{first} to {last} ({zone})"


def _note_findings(result: IngestResult) -> None:
    for finding in result.findings:
        note(finding.message)


def _print_json(result: IngestResult) -> None:
    print_json(
        {
            # Field by field: asdict would take the counters apart.
            "files": [
                {"rows": report.rows} | {f.name: getattr(report, f.name) for f in fields(report)}
                for report in result.files
            ],
            "findings": [asdict(finding) | {"message": finding.message} for finding in result.findings],
        }
    )
