"""Print jobs as tables for people, as lines for programs, and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

import polars as pl

from forewarn.formatting import timestamp
from forewarn.operate.job_fields import FIELDS, Measure, as_text, raw_value
from forewarn.operate.job_history import JobChange
from forewarn.operate.queries import JobSummary
from forewarn.progress import with_progress
from forewarn.serve.cli.terminal.output import print_facts, print_json, print_table, say, shares
from forewarn.serve.cli.terminal.progress import progress
from forewarn.serve.cli.terminal.safe_text import echo, echo_json

DEFAULT = (
    *("jobid", "user", "partition", "jobname", "nnodes", "ncpus"),
    *("submit", "elapsed", "timelimit", "outcome", "exitcode"),
)

# In a narrow terminal: texts that may be cut, and columns that are dropped, the least important first.
FREE_TEXT = (
    *("name", "jobname", "work_dir", "workdir", "submit_line", "submitline", "nodes", "nodelist"),
    *("tres_asked", "reqtres", "tres_given", "alloctres", "reason", "cluster", "partition"),
)
DROPPED = ("exitcode", "nnodes", "timelimit", "ncpus", "partition", "jobname", "submit", "elapsed", "user")


def print_summary(found: JobSummary, *, as_json: bool) -> None:
    """Print the number of jobs and their outcomes."""
    if as_json:
        print_json({"jobs": found.jobs, "ended": found.ended, "outcomes": found.outcomes})
    else:
        title = f"{found.jobs:,} jobs, {found.ended:,} of them ended"
        print_facts(title, {"outcomes": shares(Counter(found.outcomes))})


def print_history(changes: Sequence[JobChange], zones: Mapping[str, str], *, as_json: bool) -> None:
    """Print each observation of a job with the fields that were new or had changed."""
    if as_json:
        for change in changes:
            print_json(asdict(change))
        return
    table = []
    for change in changes:
        seen_at = timestamp(change.seen_at, zones.get(change.cluster, "UTC"))
        what = " ".join(f"{name}={value}" for name, value in change.changed.items()) or "nothing new"
        origin = change.source + (" (final record)" if change.reconstructed else "")
        table.append((change.cluster, seen_at, origin, what))
    print_table(("cluster", "seen at", "source", "what was new"), table, shorten=["what was new"])


def print_jobs_json(frames: Iterator[pl.DataFrame], names: tuple[str, ...] | None) -> None:
    """Print one JSON object per line, with these fields or all fields of a job."""
    for frame in frames:
        shown = frame.select(raw_value(name) for name in names) if names else frame
        for part in shown.iter_slices(10_000):
            echo_json(part.write_ndjson(), end="")


def print_parsable(frames: Iterator[pl.DataFrame], names: tuple[str, ...], zones: Mapping[str, str]) -> None:
    """Print as `sacct --parsable2` does: a heading, then lines; | and line breaks in a value are escaped."""
    echo("|".join(names))
    for frame in frames:
        text = frame.select(
            as_text(name, zones, exact=True)
            .fill_null("")
            .str.replace_all(r"[\\|]", r"\$0")
            .str.replace_all("\n", r"\n", literal=True)
            for name in names
        )
        for row in text.iter_rows():
            echo("|".join(row))


def print_jobs(
    frames: Iterator[pl.DataFrame],
    names: tuple[str, ...],
    zones: Mapping[str, str],
    limit: int,
    *,
    whole: bool,
) -> None:
    """Print a table; if not `whole`, columns may be left out."""
    looked = with_progress(frames, "looking", progress)
    texts = [frame.select(as_text(name, zones, exact=False) for name in names) for frame in looked]
    if not texts:
        say("no jobs match")
        return
    table = pl.concat(texts)
    if not whole:  # a field that this history never has is not worth a column
        table = table.select(name for name in names if table[name].null_count() < table.height)
    right = {name for name in names if FIELDS[name].measure is not Measure.TEXT}
    # Fields requested by name are all shown; default ones give way to the more important.
    left_out = print_table(
        table.columns,
        table.iter_rows(),
        right=right,
        shorten=FREE_TEXT,
        drop=() if whole else DROPPED,
    )
    if left_out:
        say(f"no room for {', '.join(left_out)}; --format shows the fields that you name")
    if limit and table.height == limit:
        say(f"the newest {limit:,} jobs; --limit 0 shows all, --count counts them")
