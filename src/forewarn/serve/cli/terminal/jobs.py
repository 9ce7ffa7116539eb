"""Jobs as tables for people, lines for programs, and JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from zoneinfo import ZoneInfo

import polars as pl

from forewarn.operate.job_fields import FIELDS, Measure, raw, written
from forewarn.operate.job_history import JobChange
from forewarn.operate.queries import JobSummary
from forewarn.progress import watched
from forewarn.serve.cli.terminal.output import print_facts, print_json, print_table, say, shares
from forewarn.serve.cli.terminal.progress import progress
from forewarn.serve.cli.terminal.safe_text import echo, echo_json

DEFAULT = (
    *("jobid", "user", "partition", "jobname", "nnodes", "ncpus"),
    *("submit", "elapsed", "timelimit", "outcome", "exitcode"),
)

# Where a terminal is narrow: texts that may be cut, and columns that go, the least missed first.
FREE_TEXT = (
    *("name", "jobname", "work_dir", "workdir", "submit_line", "submitline", "nodes", "nodelist"),
    *("tres_asked", "reqtres", "tres_given", "alloctres", "reason", "cluster", "partition"),
)
DROPPED = ("exitcode", "nnodes", "timelimit", "ncpus", "partition", "jobname", "submit", "elapsed", "user")


def print_summary(found: JobSummary, *, as_json: bool) -> None:
    """How many there are, and how they ended."""
    if as_json:
        print_json({"jobs": found.jobs, "ended": found.ended, "outcomes": found.outcomes})
    else:
        title = f"{found.jobs:,} jobs, {found.ended:,} of them ended"
        print_facts(title, {"outcomes": shares(Counter(found.outcomes))})


def print_history(changes: Sequence[JobChange], zones: Mapping[str, str], *, as_json: bool) -> None:
    """Each observation of a job with the fields that were new or had changed."""
    if as_json:
        for change in changes:
            print_json(asdict(change))
        return
    table = []
    for change in changes:
        zone = ZoneInfo(zones.get(change.cluster, "UTC"))
        moment = datetime.fromtimestamp(change.seen_at, zone).strftime("%Y-%m-%dT%H:%M:%S")
        what = " ".join(f"{name}={value}" for name, value in change.changed.items()) or "nothing new"
        origin = change.source + (" (final record)" if change.reconstructed else "")
        table.append((change.cluster, moment, origin, what))
    print_table(("cluster", "seen at", "source", "what was new"), table, shorten=["what was new"])


def print_jobs_json(frames: Iterator[pl.DataFrame], names: tuple[str, ...] | None) -> None:
    """One JSON object a line: these fields, or all of a job."""
    for frame in frames:
        shown = frame.select(raw(name) for name in names) if names else frame
        for part in shown.iter_slices(10_000):
            echo_json(part.write_ndjson(), end="")


def print_parsable(frames: Iterator[pl.DataFrame], names: tuple[str, ...], zones: Mapping[str, str]) -> None:
    """As `sacct --parsable2`: a heading, then lines; a | or line break in a value has a backslash."""
    echo("|".join(names))
    for frame in frames:
        text = frame.select(
            written(name, zones, exact=True)
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
    """A table; not `whole` where columns may be left out."""
    looked = watched(frames, "looking", progress)
    texts = [frame.select(written(name, zones, exact=False) for name in names) for frame in looked]
    if not texts:
        say("no such jobs")
        return
    table = pl.concat(texts)
    if not whole:  # a log that never has a field need not say so on every line
        table = table.select(name for name in names if table[name].null_count() < table.height)
    right = {name for name in names if FIELDS[name].measure is not Measure.TEXT}
    # What was asked for by name is shown; what is usual gives way to what matters more.
    left_out = print_table(
        table.columns,
        table.iter_rows(),
        right=right,
        shorten=FREE_TEXT,
        drop=() if whole else DROPPED,
    )
    if left_out:
        say(f"no room for {', '.join(left_out)}; --format shows what is asked for")
    if limit and table.height == limit:
        say(f"the newest {limit:,}; --limit 0 shows all, --count counts")
