"""`forewarn simulate`: a made-up cluster whose failures have known causes."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from forewarn.errors import UsageError
from forewarn.operate.simulate import simulate
from forewarn.serve.cli.commands import ingest
from forewarn.serve.cli.commands.common import configured, home_option, json_option
from forewarn.serve.cli.terminal.output import print_facts, print_json, shares
from forewarn.serve.cli.terminal.progress import progress
from forewarn.sources.simulator import WRITERS, SimulationSummary


@click.command("simulate")
@home_option
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="What to write."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(list(WRITERS)),
    default="parquet",
    show_default=True,
    help="Its format.",
)
@click.option(
    "--scenario",
    default="default",
    show_default=True,
    metavar="NAME|FILE",
    help="default, small, harsh, drift, or a TOML file.",
)
@click.option(
    "--jobs", type=click.IntRange(min=1), metavar="N", help="How many.  [default: as the scenario says]"
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    metavar="N",
    help="The same seed gives the same jobs.",
)
@click.option(
    "--machine",
    type=click.Path(file_okay=False, exists=True, path_type=Path),
    metavar="DIR",
    help="Write its nodes.json and partitions.json there too, as slurmrestd tells of them.",
)
@click.option("--ingest", "then_ingest", is_flag=True, help="Read it into the store at once.")
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    home: Path | None,
    output: Path | None,
    then_ingest: bool,
    as_json: bool,
    **how: Any,
) -> None:
    """Make up a cluster's history in which every failure has a known cause.

    Users with habits and skill, requests that are wrong in human ways, memory kills, time-outs, sick
    nodes, outages, broken scripts, cancelled jobs, drift. Beside FILE comes FILE.truth.parquet: the
    true cause and need of each job, against which predictions and advice can be checked.

    \b
    Examples:
      forewarn simulate --ingest --scenario small
      forewarn simulate -o year.parquet --jobs 1000000 --seed 7
      forewarn simulate -o history.txt --format sacct --scenario mine.toml
    """
    if output is None and not then_ingest:
        raise UsageError("--output: say where to write it (or --ingest, to have it in the store)")
    simulated = simulate(configured(home=home), output=output, watch=progress, **how)
    made = simulated.summary
    if then_ingest:
        ctx.invoke(
            ingest.command,
            sources=simulated.sources,
            home=home,
            cluster=made.cluster,
            timezone=made.timezone,
            as_json=as_json,
        )
    elif as_json:
        print_json(asdict(made))
    else:
        _print(made)


def _print(made: SimulationSummary) -> None:
    print_facts(
        f"{made.path}: {made.jobs:,} jobs of cluster {made.cluster} ({made.timezone})",
        {
            "outcomes": shares(Counter(made.outcomes)),
            "causes": shares(Counter(made.causes)),
            "truth": str(made.truth_path),
        },
    )
