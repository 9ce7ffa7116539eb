"""`forewarn predict`: what the model says of jobs that wait or run now."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from forewarn.serve.cli.commands.common import home_option, json_option, opened
from forewarn.serve.cli.commands.live_job_options import pending_option, running_option, user_option
from forewarn.serve.cli.terminal.output import note, print_json, print_table, say

if TYPE_CHECKING:
    from forewarn.assess.assessment import Assessment
    from forewarn.operate.live_jobs import Order

_HEADINGS = (
    *("jobid", "user", "partition", "state", "phase", "probability", "threshold", "warns", "by"),
    *("likeliest cause", "hours at risk", "base rate", "learnt from", "why not"),
)
# Who states a risk, where it is not a trained model.
_RULE, _UNTRAINED = "rule", "untrained"
_MEANINGS = {
    _RULE: "by rule: a simple rule states the risk, since no model beats it",
    _UNTRAINED: "by untrained: a rough estimate from recent outcomes, not a trained model",
}


@click.command("predict")
@click.argument("job_ids", nargs=-1, metavar="[JOBID]...")
@home_option
@pending_option
@running_option
@user_option
@click.option(
    "--sort",
    type=click.Choice(["hours", "probability", "asked"]),
    help="By node hours at risk, by probability, or as asked for.  [default: hours; of ids: asked]",
)
@json_option
def command(
    job_ids: tuple[str, ...],
    home: Path | None,
    sort: Order | None,
    as_json: bool,
    **which: Any,
) -> None:
    """Predict failure of pending and running jobs: how likely, of what, and the node hours at risk.

    Each is judged as of now, with all that has become known since its submit, by the model for start where
    there is one, else by the one for submit. What is knowable of a job rests on the history in the store:
    `forewarn collect` keeps that up to date. What is said is kept, to be held against what comes true; not
    by who may only read the home.

    \b
    Examples:
      forewarn predict 123456 123457_3
      forewarn predict --pending -u alice
      forewarn predict --pending --sort probability
      forewarn predict --running --json | jq '.[] | select(.failure.warns) | .job_id'
    """
    from forewarn.operate.live_jobs import assess_live_jobs
    from forewarn.serve.cli.terminal.progress import working

    with opened(home=home) as workspace:
        found = assess_live_jobs(workspace, job_ids, working=working, **which)
    if found.assessments or not found.unknown:
        _print(found.sorted(sort or ("asked" if job_ids else "hours")), as_json)
    found.check(needs_model=True)


def _print(said: list[Assessment], as_json: bool) -> None:
    if as_json:
        print_json([assessment.to_json() for assessment in said])
        return
    if not said:
        say("no such jobs wait or run")
        return
    from forewarn.assess.wording import words

    print_table(
        _HEADINGS,
        [_cells(assessment) for assessment in said],
        right=("probability", "threshold", "hours at risk", "base rate", "learnt from"),
        shorten=("why not",),
        drop=("learnt from", "base rate", "threshold", "partition"),
    )
    stated_by = {_stated_by(assessment) for assessment in said}
    for message in (text for by, text in _MEANINGS.items() if by in stated_by):
        note(message)
    caveats = [assessment.route.caveat for assessment in said if assessment.route.caveat is not None]
    notes = [*caveats, *(each for assessment in said for each in assessment.notes)]
    for message in dict.fromkeys(map(words, notes)):
        note(message)


def _stated_by(assessment: Assessment) -> str | None:
    """Return who states the risk of a job: a model, a rule in its place or the untrained estimate."""
    from forewarn.assess.verdict import ONLINE

    if assessment.failure is None:
        return None
    if assessment.route.model == ONLINE:
        return _UNTRAINED
    return _RULE if assessment.route.rule else "model"


def _cells(said: Assessment) -> list[str | None]:
    """A row. Where there is too little evidence, a probability would only pretend."""
    from forewarn.assess.wording import summary

    failure = said.failure
    cause = failure.causes[0] if failure and failure.causes else None
    return [
        *(said.job_id, said.user, said.partition, said.state and said.state.lower(), said.phase),
        None if failure is None else f"{failure.probability:.0%}",
        None if failure is None else f"{failure.threshold:.0%}",
        None if failure is None else ("yes" if failure.warns else "no"),
        _stated_by(said),
        None if cause is None else f"{cause.outcome} {cause.probability:.0%}",
        None if said.hours_at_risk is None else f"{said.hours_at_risk:,.1f}",
        None if failure is None else f"{failure.base_rate:.0%}",
        None if failure is None else f"{failure.rests_on:,} jobs",
        "" if failure else summary(said),
    ]
