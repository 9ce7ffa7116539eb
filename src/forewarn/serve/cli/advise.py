"""`forewarn advise`: what to change of a job that waits."""

from __future__ import annotations

import getpass
from pathlib import Path

import click

from forewarn.serve.cli.common import home_option, json_option
from forewarn.serve.cli.live_jobs import said_of
from forewarn.serve.cli.output import print_json


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
    from forewarn.assess.wording import Reader
    from forewarn.serve.cli.assessing import show

    viewer = getpass.getuser()
    with said_of(home, job_ids, whole=True) as said:
        if as_json:
            print_json([made.to_json(Reader.of(made.user, viewer)) for made in said])
            return
        for made in said:
            show(made, f"job {made.job_id}", Reader.of(made.user, viewer))
