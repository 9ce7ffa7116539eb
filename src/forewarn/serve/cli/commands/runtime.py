"""`forewarn runtime`: how long jobs will run and what they will use, beside what they asked for."""

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
    *("jobid", "user", "partition", "state", "run time", "1 in 10 beyond", "limit", "needs longer"),
    *("memory", "enough", "asked", "needs more", "CPU", "learnt from"),
)
_NUMBERS = _HEADINGS[4:]
_KEPT = ("cluster", "job_id", "submit", "user", "name", "partition", "state", "phase", "made_at")


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

    Half of such jobs run longer than the run time shown. Memory is counted a node: as a rule, and what is
    enough with 95 %. How it is learnt, from jobs that were cut short too: docs/usage.md.

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


def _print(said: list[Assessment], as_json: bool) -> None:
    if as_json:
        print_json([_brief(assessment) for assessment in said])
        return
    if not said:
        say("no such jobs wait or run")
        return
    print_table(
        _HEADINGS,
        [_cells(assessment) for assessment in said],
        right=_NUMBERS,
        drop=("learnt from", "CPU", "partition", "1 in 10 beyond", "enough"),
    )
    if any(assessment.run_time is None for assessment in said):
        note("no run time is foreseen where no model serves, or where its history has none: `forewarn train`")


def _brief(said: Assessment) -> dict[str, Any]:
    """What this command is about, of all that was said."""
    told = said.to_json()
    return {name: told[name] for name in (*_KEPT, "run_time", "resources")}


def _cells(said: Assessment) -> list[str | None]:
    from forewarn.formatting import byte_size, duration

    run, use = said.run_time, said.resources
    memory = use.memory if use else None
    return [
        *(said.job_id, said.user, said.partition, said.state and said.state.lower()),
        None if run is None else duration(run.seconds.median),
        None if run is None else duration(run.seconds.high),
        None if run is None or run.limit is None else duration(run.limit),
        None if run is None or run.over_limit is None else f"{run.over_limit:.0%}",
        None if memory is None else byte_size(memory.median),
        None if use is None or use.memory_request is None else byte_size(use.memory_request),
        None if use is None or use.memory_asked is None else byte_size(use.memory_asked),
        None if use is None or use.over_memory is None else f"{use.over_memory:.0%}",
        None if use is None or use.cpu_efficiency is None else f"{use.cpu_efficiency.median:.0%}",
        None if run is None else f"{run.rests_on:,} jobs",
    ]
