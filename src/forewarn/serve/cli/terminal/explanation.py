"""Show a post mortem on a terminal."""

from __future__ import annotations

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from forewarn.assess.post_mortem.report import Confidence, LogLine, PostMortem
from forewarn.assess.wording import YOU, Reader, each, words
from forewarn.assess.wording.similar import submitted_together
from forewarn.formatting import byte_size, duration, time_limit, timestamp
from forewarn.job.outcomes import outcome_name
from forewarn.job.record import Job
from forewarn.serve.cli.terminal.console import Terminal
from forewarn.serve.cli.terminal.output import STYLE_OF
from forewarn.serve.cli.terminal.safe_text import echo, one_line

_CONFIDENCE = {
    Confidence.CERTAIN: "certain",
    Confidence.VERY_LIKELY: "very likely",
    Confidence.LIKELY: "likely",
    Confidence.POSSIBLE: "possible",
    Confidence.UNKNOWN: "unknown",
}
_SIMILAR = 5  # jobs that are listed
_PER = {"cpu": "CPU", "gpu": "GPU", "node": "node", None: "node"}


def print_report(report: PostMortem, job: Job, zone: str, reader: Reader = YOU) -> None:
    """Print a report on stdout: the cause first, then the evidence, then what to do."""
    console = Terminal()
    if console.is_terminal:
        _print(console, report, job, zone, reader)
        return
    console.width = 120
    with console.capture() as captured:
        _print(console, report, job, zone, reader)
    # rich fills the lines of a table with spaces, which a file does not need.
    echo("\n".join(line.rstrip() for line in captured.get().split("\n")).rstrip("\n"))


def _print(console: Terminal, report: PostMortem, job: Job, zone: str, reader: Reader) -> None:
    console.print(_heading(report, job))
    console.print(Text(f"  {_facts(job, zone)}", style="bright_black"))
    console.print()
    console.print(Text(report.cause, style="bold"))
    if report.phase == "ended" and report.outcome != "completed":
        console.print(Text(f"Confidence: {_CONFIDENCE[report.confidence]}"))
    _print_log(console, report)
    if report.evidence:
        table = Table(box=None, show_header=False, pad_edge=False)
        table.add_column(no_wrap=True, style="bright_black")
        table.add_column()
        for fact in report.evidence:
            table.add_row(fact.source, Text(one_line(fact.what)))
        _section(console, "Evidence", table)
    if report.what_to_do:
        table = Table(box=None, show_header=False, pad_edge=False)
        table.add_column(no_wrap=True)
        table.add_column()
        for number, what in enumerate(report.what_to_do, 1):
            table.add_row(f"{number}.", Text(what))
        _section(console, "What to do", table)
    _print_similar(console, report, reader)


def _section(console: Terminal, title: str, content: Table) -> None:
    console.print()
    console.print(Text(title, style="bold"))
    console.print(Padding(content, (0, 0, 0, 2)))


def _heading(report: PostMortem, job: Job) -> Text:
    word = report.outcome or (report.state or "").lower()
    heading = Text(f"Job {report.job_id}", style="bold")
    if report.name:
        heading.append(f" ({one_line(report.name)})")
    if report.user:
        heading.append(f" of {one_line(report.user)}")
    heading.append(" on ").append(report.cluster).append(": ")
    heading.append(outcome_name(word), style=STYLE_OF.get(word, ""))
    if job.start is not None and (
        job.exit_code or job.exit_signal
    ):  # without a start it is Slurm's, not the job's
        heading.append(f", exit code {job.exit_code or 0}:{job.exit_signal or 0}")
    return heading


def _facts(job: Job, zone: str) -> str:
    parts = [f"submitted {timestamp(job.submit, zone)}"]
    if job.start is not None and job.start >= job.submit:
        parts.append(f"waited {duration(job.start - job.submit)}")
    if job.run_time is not None:
        parts.append(f"ran {duration(job.run_time)}")
    if job.time_limit is not None:
        parts.append(time_limit(job.time_limit))
    if job.memory_asked:
        parts.append(f"requested {byte_size(job.memory_asked)} per {_PER[job.memory_per]}")
    if job.nodes:
        parts.append(f"on {job.nodes}")
    elif job.partition:
        parts.append(f"partition {job.partition}")
    return ", ".join(parts)


def _print_log(console: Terminal, report: PostMortem) -> None:
    if report.log:
        for path in dict.fromkeys(line.path for line in report.log):
            table = Table(box=None, show_header=False, pad_edge=False)
            table.add_column(no_wrap=True, justify="right", style="bright_black")
            table.add_column(overflow="fold")
            for line in (one for one in report.log if one.path == path):
                table.add_row(_where(line), Text(line.text, style="" if line.follow_up else "red"))
            _section(console, f"In {path}", table)
    unread = [file for file in report.logs if not file.read]
    quiet = [
        file for file in report.logs if file.read and not any(one.path == file.path for one in report.log)
    ]
    slow = [file for file in report.logs if not file.in_time]
    if unread or quiet or slow:
        console.print()
    for file in slow:
        console.print(
            Text(f"In {file.path} some lines were skipped: matching took too long.", style="yellow")
        )
    for file in quiet:
        part = "" if file.whole else " (beginning and end)"
        console.print(Text(f"In {file.path}{part} no line matches a known error.", style="bright_black"))
    for file in unread:
        where = " (Slurm's default: its output path is not recorded)" if file.guessed else ""
        console.print(Text(f"Not read: {file.path}: {file.why_not}{where}.", style="bright_black"))


def _where(line: LogLine) -> str:
    """Write the place of a line.

    >>> _where(LogLine(path="a", line=-3, text="", pattern="", family="", what="", follow_up=False))
    'line 3 from the end'
    """
    return f"line {line.line}" if line.line > 0 else f"line {-line.line} from the end"


def _print_similar(console: Terminal, report: PostMortem, reader: Reader) -> None:
    if report.tally is None:
        return
    table = Table(box=None, show_header=False, pad_edge=False)
    for _ in range(4):
        table.add_column()
    for job in report.similar[:_SIMILAR]:
        table.add_row(
            job.job_id,
            Text(outcome_name(job.outcome), style=STYLE_OF.get(job.outcome, "")),
            "" if job.run_time is None else f"ran {duration(job.run_time)}",
            Text((", ".join(each(job.differs, reader)) or "same request") + submitted_together(job)),
        )
    _section(console, f"Similar earlier jobs: {words(report.tally, reader)}", table)
