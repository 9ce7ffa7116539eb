"""`forewarn explain`: explain why a job failed or is pending."""

from __future__ import annotations

import getpass
from pathlib import Path

import click

from forewarn.serve.cli.commands.common import home_option, json_option, opened
from forewarn.serve.cli.remote.service import asked_service, url_option
from forewarn.serve.cli.terminal.output import note, print_json, say


@click.command("explain")
@click.argument("job_id", metavar="JOBID")
@home_option
@url_option
@click.option("-M", "--cluster", metavar="NAME", help="The cluster, if the job id exists on several.")
@click.option(
    "--log",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The output of the job, if it is not where Slurm says.",
)
@json_option
def command(
    job_id: str,
    home: Path | None,
    url: str | None,
    cluster: str | None,
    log: Path | None,
    as_json: bool,
) -> None:
    """Explain why a job failed or is pending, with the evidence and what to do.

    The evidence is its record, exit code and steps, events of its nodes, other jobs at the time, and the
    lines of its output that match known errors; no language model is used. The job is looked up in the store,
    then in Slurm if it is reachable. The output is read from where Slurm says it is, if you may read it.
    With FOREWARN_URL or --url, a service explains it; the output of your own job is sent along.

    \b
    Examples:
      forewarn explain 123456
      forewarn explain 123456_7 --log run.out
      forewarn explain 123456 --json | jq .cause
    """
    from forewarn.assess.wording import Reader
    from forewarn.serve.cli.terminal.explanation import print_report

    if client := asked_service(url, home=home):
        from forewarn.serve.cli.remote.explain import explain_job_remotely

        found = explain_job_remotely(client, job_id, cluster=cluster, log=log, note=say)
    else:
        from forewarn.operate.explain import explain_job
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
