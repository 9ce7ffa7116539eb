"""`forewarn ingest`: read job records from files into the store."""

from __future__ import annotations

from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import click

from forewarn.formatting import count, date, elapsed, number
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
    "-M", "--cluster", metavar="NAME", help="Cluster of records that name none, and of all records of xalt:."
)
@click.option("--timezone", metavar="ZONE", help="Time zone of the cluster and of times without one.")
@click.option("--fields", "names", metavar="LIST", help="Column names of sacct text without a header line.")
@click.option(
    "--status", metavar="HOW", help="Meaning of the SWF status: swf, exit-code, or 0=failed,1=completed."
)
@click.option("--skip-bad", is_flag=True, help="Write bad rows to a rejects file and read the rest.")
@click.option(
    "--rejects",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Skip bad rows and write them to this file.  [default: HOME/rejects/NAME-1.jsonl]",
)
@json_option
def command(
    sources: tuple[str, ...],
    home: Path | None,
    names: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Read job records from files into the store.

    A SOURCE is a format and a file, plain or gzipped: swf:FILE, sacct:FILE, slurmrestd:FILE,
    scontrol:FILE, jobcomp:FILE (documents of Slurm's jobcomp/elasticsearch), nrel:FILE or parquet:FILE;
    or xalt:FOLDER, records of the programs that jobs ran.
    Reading a file again changes nothing. A file is read completely or not at all: at the first bad
    row the store is rolled back to its state before that file.

    \b
    Examples:
      forewarn ingest sacct:history.txt
      forewarn ingest --cluster blue swf:SDSC-BLUE-2000-4.2-cln.swf.gz
      forewarn ingest --cluster lab xalt:/var/xalt/records
      forewarn ingest jobcomp:slurm-index.jsonl
      forewarn ingest --skip-bad --timezone Europe/Zurich sacct:2023.txt sacct:2024.txt.gz
    """
    with opened(home=home, cluster=options["cluster"], timezone=options["timezone"]) as workspace:
        ingest_sources(
            workspace,
            *sources,
            fields=split([names]) if names else None,
            watch=progress,
            each=(lambda *_: None) if as_json else _show,
            last=_print_json if as_json else _note_findings,
            **options,
        )


def _show(report: IngestReport, source: Source) -> None:
    """Print the summary of one file to stdout and its notes to stderr."""
    records = ", ".join(_count_of(report, kind, n) for kind, n in report.kinds.items() if n)
    print_facts(
        f"{report.file}: {records or 'no records'} in {elapsed(report.seconds)}",
        {
            "rows": f"{number(report.new)} new, {number(report.same)} already stored, "
            f"{number(report.bad)} bad",
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
            f"{state} ({count(n, 'row')})" for state, n in report.unknown_states.most_common(6)
        )
        more = ", …" if len(report.unknown_states) > 6 else ""
        note(f"unknown states, stored with outcome `unknown`: {states}{more}")


def _count_of(report: IngestReport, kind: str, rows: int) -> str:
    """Format the number of rows of a kind, with the number of their jobs where it is known.

    >>> _count_of(IngestReport(file="a", new_jobs=1), "job", 1), _count_of(IngestReport(file="a"), "node", 2)
    ('1 job', '2 nodes')
    >>> _count_of(IngestReport(file="a", new_jobs=2, first_of_cluster=True), "job", 3)
    '3 observations of 2 jobs'
    >>> _count_of(IngestReport(file="a", new_jobs=1), "job", 3)
    '3 observations of jobs, 1 new job'
    """
    if kind != "job" or rows == report.new_jobs:
        return count(rows, kind)
    observations = count(rows, "observation")
    if report.first_of_cluster:
        return f"{observations} of {count(report.new_jobs, 'job')}"
    return f"{observations} of jobs, {count(report.new_jobs, 'new job')}"


def _span(report: IngestReport, zone: str) -> str | None:
    if report.first_submit is None or report.last_submit is None:
        return None
    return f"{date(report.first_submit, zone)} to {date(report.last_submit, zone)} ({zone})"


def _note_findings(result: IngestResult) -> None:
    for finding in result.findings:
        note(finding.message)


def _print_json(result: IngestResult) -> None:
    print_json(
        {
            # Field by field: asdict would convert the counters.
            "files": [
                {"rows": report.rows} | {f.name: getattr(report, f.name) for f in fields(report)}
                for report in result.files
            ],
            "findings": [asdict(finding) | {"message": finding.message} for finding in result.findings],
        }
    )
