"""`forewarn features`: write the features of each job to a Parquet file."""

from __future__ import annotations

from pathlib import Path

import click

from forewarn.features.kernel.layout import FEATURE_SETS
from forewarn.formatting import count
from forewarn.job.outcomes import POLICIES
from forewarn.job.phase import PHASES, Phase
from forewarn.operate.features import write_feature_table
from forewarn.serve.cli.commands.common import home_option, json_option, opened
from forewarn.serve.cli.terminal.output import print_json, say
from forewarn.serve.cli.terminal.progress import progress


@click.command("features")
@home_option
@click.option(
    "--phase",
    type=click.Choice(PHASES),
    default=Phase.SUBMIT,
    show_default=True,
    help="Moment of the prediction.",
)
@click.option(
    "--features",
    "feature_set",
    type=click.Choice(FEATURE_SETS),
    default="generic",
    show_default=True,
    help="Feature set.",
)
@click.option("-M", "--cluster", metavar="NAME", help="Only this cluster's jobs.  [default: all]")
@click.option("--policy", type=click.Choice(sorted(POLICIES)), help="Failure policy of histories.")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    metavar="FILE",
    help="The Parquet file to write.",
)
@json_option
def command(
    home: Path | None,
    phase: str,
    feature_set: str,
    cluster: str | None,
    policy: str | None,
    output: Path,
    as_json: bool,
) -> None:
    """Write the features of each job at submit or start to a Parquet file.

    One row for each job: cluster, job_id, submit, then the features, computed only from what was known at
    that moment. Feature sets: generic (fields of most Slurm sites), restricted (no identity and no
    history, for new users), swf (fields of the Standard Workload Format only).

    \b
    Examples:
      forewarn features -o submit.parquet
      forewarn features --phase start --features restricted -o start.parquet
      forewarn features --features swf -M CTC-SP2-1996-3 --policy papers -o ctc.parquet
    """
    with opened(home=home, policy=policy) as workspace:
        written = write_feature_table(
            workspace, output, cluster, phase=phase, feature_set=feature_set, watch=progress
        )
    if as_json:
        print_json({"file": str(written.path), "jobs": written.jobs, "features": written.features})
    else:
        say(f"wrote {written.path}: {count(written.jobs, 'job')}, {count(written.features, 'feature')}")
