"""`forewarn runtime`: predict run time and resource use of pending and running jobs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from forewarn.serve.cli.commands.common import home_option, json_option, opened
from forewarn.serve.cli.commands.live_job_options import pending_option, running_option, user_option
from forewarn.serve.cli.terminal.output import note, print_json, print_table, say

if TYPE_CHECKING:
    from forewarn.assess.assessment import Assessment

_HEADINGS = (
    *("jobid", "user", "partition", "state", "run time", "90th percentile", "limit", "exceeds limit"),
    *("memory", "sufficient", "requested", "exceeds request", "CPU efficiency", "trained on"),
)
_NUMBERS = _HEADINGS[4:]
_FIELDS = ("cluster", "job_id", "submit", "user", "name", "partition", "state", "phase", "made_at")


@click.command("runtime")
@click.argument("job_ids", nargs=-1, metavar="[JOBID]...")
@home_option
@pending_option
@running_option
@user_option
@json_option
def command(
    job_ids: tuple[str, ...],
    home: Path | None,
    as_json: bool,
    **which: Any,
) -> None:
    """Predict run time and resource use of pending and running jobs.

    Run time: the median and the 90th percentile of jobs like this, and the chance of exceeding the limit.
    Memory per node: the median, the amount sufficient for 95% of jobs like this, and the chance of exceeding
    the requested memory. How this is learnt, also from jobs that were cut short: docs/usage.md.

    \b
    Examples:
      forewarn runtime 123456
      forewarn runtime --pending -u alice
      forewarn runtime --running --json | jq '.[] | select(.run_time.over_limit > 0.5) | .job_id'
    """
    from forewarn.operate.live_jobs import assess_live_jobs
    from forewarn.serve.cli.terminal.progress import working

    with opened(home=home) as workspace:
        found = assess_live_jobs(workspace, job_ids, working=working, **which)
    if found.assessments or not found.unknown:
        _print(list(found.assessments), as_json)
    found.check()


def _print(assessments: list[Assessment], as_json: bool) -> None:
    if as_json:
        print_json([_brief(assessment) for assessment in assessments])
        return
    if not assessments:
        say("no pending or running job matches")
        return
    print_table(
        _HEADINGS,
        [_cells(assessment) for assessment in assessments],
        right=_NUMBERS,
        drop=("trained on", "CPU efficiency", "partition", "90th percentile", "sufficient"),
    )
    if any(assessment.run_time is None for assessment in assessments):
        note("no run time is predicted without a model, or where the history has none: `forewarn train`")


def _brief(assessment: Assessment) -> dict[str, Any]:
    """Select the fields of an assessment that this command is about."""
    fields = assessment.to_json()
    return {name: fields[name] for name in (*_FIELDS, "run_time", "resources")}


def _cells(assessment: Assessment) -> list[str | None]:
    from forewarn.formatting import byte_size, duration, percent

    run, use = assessment.run_time, assessment.resources
    memory = use.memory if use else None
    return [
        *(assessment.job_id, assessment.user, assessment.partition),
        assessment.state and assessment.state.lower(),
        None if run is None else duration(run.seconds.median),
        None if run is None else duration(run.seconds.high),
        None if run is None or run.limit is None else duration(run.limit),
        None if run is None or run.over_limit is None else percent(run.over_limit),
        None if memory is None else byte_size(memory.median),
        None if use is None or use.memory_request is None else byte_size(use.memory_request),
        None if use is None or use.memory_asked is None else byte_size(use.memory_asked),
        None if use is None or use.over_memory is None else percent(use.over_memory),
        None if use is None or use.cpu_efficiency is None else percent(use.cpu_efficiency.median),
        None if run is None else f"{run.rests_on:,} jobs",
    ]
