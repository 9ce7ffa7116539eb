"""`forewarn predict`: predict failure of pending and running jobs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from forewarn.serve.cli.commands.common import home_option, json_option, opened
from forewarn.serve.cli.commands.live_job_options import pending_option, running_option, user_option
from forewarn.serve.cli.remote.service import asked_service, url_option
from forewarn.serve.cli.terminal.output import note, print_json, print_table, say

if TYPE_CHECKING:
    from forewarn.assess.assessment import Assessment
    from forewarn.operate.live_result import Order

_HEADINGS = (
    *("jobid", "user", "partition", "state", "phase", "probability", "threshold", "warns", "by"),
    *("most likely cause", "hours at risk", "average", "trained on", "why not"),
)
# What states a risk, where it is not a trained model.
_RULE, _UNTRAINED = "rule", "untrained"
_MEANINGS = {
    _RULE: "by rule: a simple rule states the risk, which no model beats",
    _UNTRAINED: "by untrained: a rough estimate from recent outcomes, not a trained model",
}


@click.command("predict")
@click.argument("job_ids", nargs=-1, metavar="[JOBID]...")
@home_option
@url_option
@pending_option
@running_option
@user_option
@click.option(
    "--sort",
    type=click.Choice(["hours", "probability", "asked"]),
    help="By node hours at risk, by probability, or in the order of ids.  "
    "[default: hours; asked if job ids are given]",
)
@json_option
def command(
    job_ids: tuple[str, ...],
    home: Path | None,
    url: str | None,
    sort: Order | None,
    as_json: bool,
    **which: Any,
) -> None:
    """Predict failure of pending and running jobs: probability, cause, node hours at risk.

    Each job is assessed now, with all that is known since its submit. A running job is assessed by the model
    for phase start, if there is one, otherwise by the model for phase submit. Predictions use the history in
    the store, which `forewarn collect` keeps up to date. They are stored, to be compared with the outcomes
    later, unless you may only read the home.

    \b
    Examples:
      forewarn predict 123456 123457_3
      forewarn predict --pending -u alice
      forewarn predict --pending --sort probability
      forewarn predict --running --json | jq '.[] | select(.failure.warns) | .job_id'
    """
    if client := asked_service(url, home=home):
        from forewarn.serve.cli.remote.live_jobs import assess_live_jobs_remotely

        found = assess_live_jobs_remotely(client, job_ids, **which)
    else:
        from forewarn.operate.live_jobs import assess_live_jobs
        from forewarn.serve.cli.terminal.progress import working

        with opened(home=home) as workspace:
            found = assess_live_jobs(workspace, job_ids, working=working, **which)
    if found.assessments or not found.unknown:
        _print(found.sorted(sort or ("asked" if job_ids else "hours")), as_json)
    found.check(needs_model=True)


def _print(assessments: list[Assessment], as_json: bool) -> None:
    if as_json:
        print_json([assessment.to_json() for assessment in assessments])
        return
    if not assessments:
        say("no pending or running job matches")
        return
    from forewarn.assess.wording import words

    print_table(
        _HEADINGS,
        [_cells(assessment) for assessment in assessments],
        right=("probability", "threshold", "hours at risk", "average", "trained on"),
        shorten=("why not",),
        drop=("trained on", "average", "threshold", "partition"),
    )
    stated_by = {_stated_by(assessment) for assessment in assessments}
    for message in (text for by, text in _MEANINGS.items() if by in stated_by):
        note(message)
    caveats = [assessment.route.caveat for assessment in assessments if assessment.route.caveat is not None]
    notes = [*caveats, *(each for assessment in assessments for each in assessment.notes)]
    for message in dict.fromkeys(map(words, notes)):
        note(message)


def _stated_by(assessment: Assessment) -> str | None:
    """Return what states the risk of a job: a model, a rule in its place or the untrained estimate."""
    from forewarn.assess.verdict import ONLINE

    if assessment.failure is None:
        return None
    if assessment.route.model == ONLINE:
        return _UNTRAINED
    return _RULE if assessment.route.rule else "model"


def _cells(assessment: Assessment) -> list[str | None]:
    """Write a row of the table; with too little evidence there is no probability."""
    from forewarn.assess.wording import summary
    from forewarn.formatting import node_hours, percent
    from forewarn.job.outcomes import cause_name

    failure = assessment.failure
    cause, share = next(iter(failure.by_outcome.items()), (None, 0.0)) if failure else (None, 0.0)
    return [
        *(assessment.job_id, assessment.user, assessment.partition),
        assessment.state and assessment.state.lower(),
        assessment.phase,
        None if failure is None else percent(failure.probability),
        None if failure is None else percent(failure.threshold),
        None if failure is None else ("yes" if failure.warns else "no"),
        _stated_by(assessment),
        None if cause is None else f"{cause_name(cause)} {percent(share)}",
        None if assessment.hours_at_risk is None else node_hours(assessment.hours_at_risk),
        None if failure is None else percent(failure.base_rate),
        None if failure is None else f"{failure.rests_on:,} jobs",
        "" if failure else summary(assessment),
    ]
