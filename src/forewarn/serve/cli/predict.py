"""`forewarn predict`: what the model says of jobs that wait or run now."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from forewarn.errors import UsageError
from forewarn.serve.cli.common import configured, home_option, json_option, store_of
from forewarn.serve.cli.output import note, print_json, print_table, say
from forewarn.serve.cli.progress import progress

if TYPE_CHECKING:
    from forewarn.operate.predict import Prediction

_HEADINGS = (
    *("jobid", "user", "partition", "state", "phase", "probability", "threshold", "warns"),
    *("likeliest cause", "base rate", "learnt from", "why not"),
)


@click.command("predict")
@click.argument("job_ids", nargs=-1, metavar="[JOBID]...")
@home_option
@click.option("--pending", is_flag=True, help="All jobs that wait.")
@click.option("--running", is_flag=True, help="All jobs that run.")
@click.option("-u", "--user", metavar="NAME", help="Jobs of this user that wait or run.")
@json_option
def command(
    job_ids: tuple[str, ...],
    home: Path | None,
    pending: bool,
    running: bool,
    user: str | None,
    as_json: bool,
) -> None:
    """Say of jobs that wait or run in Slurm how likely they fail, and of what.

    A job that waits is judged by the model for submit, one that runs by the model for start, or, where
    there is none, by the one for submit. What is knowable of a job rests on the history in the store:
    `forewarn collect` keeps that up to date.

    \b
    Examples:
      forewarn predict 123456 123457_3
      forewarn predict --pending -u alice
      forewarn predict --running --json | jq '.[] | select(.warns) | .job_id'
    """
    if bool(job_ids) == bool(pending or running or user):
        raise UsageError("say which jobs: ids, or --pending, --running, -u NAME")
    from forewarn.learn.registry import Registry
    from forewarn.operate.predict import Wanted, predict
    from forewarn.sources.connect import connect

    config = configured(home=home)
    wanted = Wanted(job_ids=job_ids, pending=pending, running=running, user=user)
    registry = Registry(config.home, config.tracking)
    zone = config.of_cluster(config.cluster).timezone
    with store_of(config) as store, closing(connect(config)) as scheduler, progress("features") as far:
        said = predict(store, scheduler, registry, wanted, timezone=zone, progress=far)
    if as_json:
        print_json([asdict(prediction) for prediction in said])
        return
    if not said:
        say("no such jobs wait or run")
        return
    print_table(
        _HEADINGS,
        [_cells(prediction) for prediction in said],
        right=("probability", "threshold", "base rate", "learnt from"),
        shorten=("why not",),
        drop=("learnt from", "base rate", "threshold", "partition"),
    )
    for message in dict.fromkeys(prediction.note for prediction in said if prediction.note):
        note(message)


def _cells(said: Prediction) -> list[str | None]:
    """A row. Where there is too little evidence, a probability would only pretend."""
    silent = said.probability is None or said.why_not is not None
    return [
        *(said.job_id, said.user, said.partition, said.state and said.state.lower(), said.phase),
        None if silent else f"{said.probability:.0%}",
        None if said.threshold is None else f"{said.threshold:.0%}",
        None if silent else ("yes" if said.warns else "no"),
        None if silent or said.cause is None else f"{said.cause} {said.cause_probability:.0%}",
        None if said.base_rate is None else f"{said.base_rate:.0%}",
        None if said.learnt_from is None else f"{said.learnt_from:,} jobs",
        said.why_not or "",
    ]
