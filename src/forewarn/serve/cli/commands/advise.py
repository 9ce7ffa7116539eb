"""`forewarn advise`: suggest changes to a pending job."""

from __future__ import annotations

import getpass
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from forewarn.serve.cli.commands.common import home_option, json_option, opened
from forewarn.serve.cli.remote.service import asked_service, url_option
from forewarn.serve.cli.terminal.output import print_json

if TYPE_CHECKING:
    from forewarn.assess.assessment import Assessment


@click.command("advise")
@click.argument("job_ids", nargs=-1, required=True, metavar="JOBID...")
@home_option
@url_option
@json_option
def command(job_ids: tuple[str, ...], home: Path | None, url: str | None, as_json: bool) -> None:
    """Suggest changes to a pending job, with their effect on its risk.

    Prints the whole assessment of the job: predicted run time and memory, unusual requests, the risk of
    failure by cause with its reasons, similar earlier jobs, and what to change, with a command to do so.

    \b
    Examples:
      forewarn advise 123456
      forewarn advise 123456 --json | jq -r '.[].advice[0].command'
    """
    if client := asked_service(url, home=home):
        from forewarn.serve.cli.remote.live_jobs import assess_live_jobs_remotely

        found = assess_live_jobs_remotely(client, job_ids)
    else:
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
        print_json([assessment.to_json(Reader.of(assessment.user, viewer)) for assessment in assessments])
        return
    for assessment in assessments:
        show(assessment, f"job {assessment.job_id}", Reader.of(assessment.user, viewer))
