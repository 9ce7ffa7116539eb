"""`forewarn features`: what was knowable of each job at a moment, as a Parquet table."""

from __future__ import annotations

from pathlib import Path

import click

from forewarn.errors import UsageError
from forewarn.features.kernel.layout import FEATURE_SETS
from forewarn.features.table import write_features
from forewarn.job.outcomes import POLICIES
from forewarn.job.phase import PHASES, Phase
from forewarn.serve.cli.common import configured, home_option, json_option, store_of
from forewarn.serve.cli.output import print_json, say
from forewarn.serve.cli.progress import progress


@click.command("features")
@home_option
@click.option(
    "--phase", type=click.Choice(PHASES), default=Phase.SUBMIT, show_default=True, help="As of which moment."
)
@click.option(
    "--features",
    "feature_set",
    type=click.Choice(FEATURE_SETS),
    default="generic",
    show_default=True,
    help="Which set of features.",
)
@click.option("-M", "--cluster", metavar="NAME", help="Only this cluster's jobs.  [default: all]")
@click.option("--policy", type=click.Choice(sorted(POLICIES)), help="What counts as failure in histories.")
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
    """Write what was knowable of each job at submit or start, as a Parquet table.

    One row a job: cluster, job_id, submit, then the features. Nothing that happened after the moment
    has any part in them. Sets: generic (what most Slurm sites have), restricted (no identity and no
    history, for new users), swf (only what the Standard Workload Format carries).

    \b
    Examples:
      forewarn features -o submit.parquet
      forewarn features --phase start --features restricted -o start.parquet
      forewarn features --features swf -M CTC-SP2-1996-3 --policy papers -o ctc.parquet
    """
    if not output.parent.is_dir():
        raise UsageError(f"--output: {output}: its folder {output.parent} is not there")
    config = configured(home=home, policy=policy)
    store = store_of(config, read_only=True)
    try:
        known = store.clusters()
        if cluster is not None and cluster not in known:
            raise UsageError(f"--cluster: no cluster {cluster!r} in the store; there are {', '.join(known)}")
        with progress(f"features at {phase}") as report:
            written = write_features(
                store,
                output,
                cluster=cluster,
                phase=phase,
                feature_set=feature_set,
                policy=POLICIES[config.policy],
                progress=report,
            )
    finally:
        store.close()
    if as_json:
        print_json({"file": str(written.path), "jobs": written.jobs, "features": written.features})
    else:
        say(f"{written.path}: {written.jobs:,} jobs, {written.features} features")
