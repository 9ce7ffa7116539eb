"""`forewarn simulate`: simulate the history of a cluster whose failures have known causes."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from forewarn.errors import UsageError
from forewarn.formatting import count
from forewarn.operate.simulate import simulate
from forewarn.serve.cli.commands import ingest
from forewarn.serve.cli.commands.common import configured, home_option, json_option
from forewarn.serve.cli.terminal.output import print_facts, print_json, shares
from forewarn.serve.cli.terminal.progress import progress
from forewarn.sources.simulator import WRITERS, SimulationSummary


@click.command("simulate")
@home_option
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Output file."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(list(WRITERS)),
    default="parquet",
    show_default=True,
    help="Format of the output file.",
)
@click.option(
    "--scenario",
    default="default",
    show_default=True,
    metavar="NAME|FILE",
    help="default, small, harsh, drift, or a TOML file.",
)
@click.option(
    "--jobs", type=click.IntRange(min=1), metavar="N", help="Number of jobs.  [default: from the scenario]"
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    metavar="N",
    help="Random seed; the same seed gives the same jobs.",
)
@click.option(
    "--machine",
    type=click.Path(file_okay=False, exists=True, path_type=Path),
    metavar="DIR",
    help="Also write nodes.json and partitions.json to this folder, in the format of slurmrestd.",
)
@click.option("--ingest", "then_ingest", is_flag=True, help="Read the jobs into the store.")
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    home: Path | None,
    output: Path | None,
    then_ingest: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Simulate the job history of a cluster, with the true cause of every failure.

    Simulates users with habits and skill, typical mistakes in requests, out-of-memory kills, timeouts, sick
    nodes, outages, broken scripts, cancelled jobs and drift. FILE.truth.parquet holds the true cause and
    the true needs of each job, to check predictions and advice against.

    \b
    Examples:
      forewarn simulate --ingest --scenario small
      forewarn simulate -o year.parquet --jobs 1000000 --seed 7
      forewarn simulate -o history.txt --format sacct --scenario mine.toml
    """
    if output is None and not then_ingest:
        raise UsageError("--output: name a file to write, or use --ingest to read the jobs into the store")
    simulated = simulate(configured(home=home), output=output, watch=progress, **options)
    summary = simulated.summary
    if then_ingest:
        ctx.invoke(
            ingest.command,
            sources=simulated.sources,
            home=home,
            cluster=summary.cluster,
            timezone=summary.timezone,
            as_json=as_json,
        )
    elif as_json:
        print_json(asdict(summary))
    else:
        _print(summary)


def _cause(name: str) -> str:
    """Write a simulated cause as words.

    >>> _cause("user_cancel"), _cause("file_system")
    ('cancelled by user', 'file system')
    """
    return "cancelled by user" if name == "user_cancel" else name.replace("_", " ")


def _print(summary: SimulationSummary) -> None:
    print_facts(
        f"{summary.path}: {count(summary.jobs, 'job')} of cluster {summary.cluster} ({summary.timezone})",
        {
            "outcomes": shares(Counter(summary.outcomes)),
            "causes": shares(Counter(summary.causes), _cause),
            "truth": str(summary.truth_path),
        },
    )
