"""`forewarn advise`: what to change of a job that waits."""

from __future__ import annotations

import getpass
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from forewarn.serve.cli.commands.common import home_option, json_option, opened
from forewarn.serve.cli.terminal.output import print_json

if TYPE_CHECKING:
    from forewarn.assess.assessment import Assessment


@click.command("advise")
@click.argument("job_ids", nargs=-1, required=True, metavar="JOBID...")
@home_option
@json_option
def command(job_ids: tuple[str, ...], home: Path | None, as_json: bool) -> None:
    """Say what to change of a job that waits, with what that does.

    Everything that is said of the job as of now: how long it will run, how much memory it needs, what is odd
    about it, how likely it fails and of what, why, what became of jobs like it, and what to change, with a
    command that does.

    \b
    Examples:
      forewarn advise 123456
      forewarn advise 123456 --json | jq -r '.[].advice[0].command'
    """
    from forewarn.operate.live_jobs import assess_live_jobs
    from forewarn.serve.cli.terminal.progress import working

    with opened(home=home) as workspace:
        found = assess_live_jobs(workspace, job_ids, full=True, working=working)
    if found.assessments or not found.unknown:
        _print(found.assessments, as_json)
    found.check()


def _print(assessments: Sequence[Assessment], as_json: bool) -> None:
    from forewarn.assess.wording import Reader
    from forewarn.serve.cli.terminal.assessment import show

    viewer = getpass.getuser()
    if as_json:
        print_json([made.to_json(Reader.of(made.user, viewer)) for made in assessments])
        return
    for made in assessments:
        show(made, f"job {made.job_id}", Reader.of(made.user, viewer))
