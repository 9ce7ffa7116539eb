"""`forewarn explain`: why a job failed, waits, or how it fares."""

from __future__ import annotations

import getpass
from pathlib import Path

import click

from forewarn.serve.cli.commands.common import home_option, json_option, opened
from forewarn.serve.cli.terminal.output import note, print_json


@click.command("explain")
@click.argument("job_id", metavar="JOBID")
@home_option
@click.option("-M", "--cluster", metavar="NAME", help="The cluster, where several have such a job.")
@click.option(
    "--log",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Its output, where that is not where Slurm says.",
)
@json_option
def command(job_id: str, home: Path | None, cluster: str | None, log: Path | None, as_json: bool) -> None:
    """Say why a job failed, or why it waits, with the evidence and what to do.

    Its record, its exit code and steps, what happened to its nodes and to other jobs at the time, and the
    lines of its output that match known errors are put together; no language model is asked. The job is
    looked up in the store, then in Slurm where that is within reach. The output is read where Slurm says it
    is, if you may read it.

    \b
    Examples:
      forewarn explain 123456
      forewarn explain 123456_7 --log run.out
      forewarn explain 123456 --json | jq .cause
    """
    from forewarn.assess.wording import Reader
    from forewarn.operate.explain import explain_job
    from forewarn.serve.cli.terminal.explanation import print_report
    from forewarn.serve.cli.terminal.progress import working

    with opened(home=home) as workspace:
        found = explain_job(workspace, job_id, cluster=cluster, log=log, working=working)
    reader = Reader.of(found.job.user, getpass.getuser())
    if as_json:
        print_json(found.report.to_json(reader))
        return
    print_report(found.report, found.job, found.timezone, reader)
    for message in found.report.notes:
        note(message)
