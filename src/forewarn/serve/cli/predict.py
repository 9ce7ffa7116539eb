"""`forewarn predict`: what the model says of jobs that wait or run now."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from forewarn.serve.cli.common import home_option, json_option
from forewarn.serve.cli.live_jobs import pending_option, running_option, said_of, user_option
from forewarn.serve.cli.output import note, print_json, print_table, say

if TYPE_CHECKING:
    from forewarn.assess.assessment import Assessment

_HEADINGS = (
    *("jobid", "user", "partition", "state", "phase", "probability", "threshold", "warns"),
    *("likeliest cause", "base rate", "learnt from", "why not"),
)


@click.command("predict")
@click.argument("job_ids", nargs=-1, metavar="[JOBID]...")
@home_option
@pending_option
@running_option
@user_option
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

    Each is judged as of now, with all that has become known since its submit, by the model for start where
    there is one, else by the one for submit. What is knowable of a job rests on the history in the store:
    `forewarn collect` keeps that up to date. What is said is kept, to be held against what comes true.

    \b
    Examples:
      forewarn predict 123456 123457_3
      forewarn predict --pending -u alice
      forewarn predict --running --json | jq '.[] | select(.failure.warns) | .job_id'
    """
    said = said_of(home, job_ids, pending=pending, running=running, user=user)
    if as_json:
        print_json([assessment.to_json() for assessment in said])
        return
    if not said:
        say("no such jobs wait or run")
        return
    print_table(
        _HEADINGS,
        [_cells(assessment) for assessment in said],
        right=("probability", "threshold", "base rate", "learnt from"),
        shorten=("why not",),
        drop=("learnt from", "base rate", "threshold", "partition"),
    )
    for message in dict.fromkeys(message for assessment in said for message in assessment.notes):
        note(message)


def _cells(said: Assessment) -> list[str | None]:
    """A row. Where there is too little evidence, a probability would only pretend."""
    failure = said.failure
    cause = failure.causes[0] if failure and failure.causes else None
    return [
        *(said.job_id, said.user, said.partition, said.state and said.state.lower(), said.phase),
        None if failure is None else f"{failure.probability:.0%}",
        None if failure is None else f"{failure.threshold:.0%}",
        None if failure is None else ("yes" if failure.warns else "no"),
        None if cause is None else f"{cause.outcome} {cause.probability:.0%}",
        None if failure is None else f"{failure.base_rate:.0%}",
        None if failure is None else f"{failure.rests_on:,} jobs",
        "" if failure else said.summary,
    ]
