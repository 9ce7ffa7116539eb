"""`forewarn retry`: say whether and how to submit a failed job again."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from forewarn.errors import UsageError
from forewarn.serve.cli.commands.common import home_option, json_option, opened
from forewarn.serve.cli.commands.exit_status import StatusCommand
from forewarn.serve.cli.remote.service import asked_service, url_option
from forewarn.serve.cli.terminal.output import note, print_json
from forewarn.serve.cli.terminal.safe_text import echo

if TYPE_CHECKING:
    from forewarn.assess.retry.verdict import RetryVerdict
    from forewarn.assess.wording.reader import Reader


@click.command("retry", cls=StatusCommand)
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
@click.option("--options", "only_options", is_flag=True, help="Print only the sbatch options to retry with.")
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    job_id: str,
    home: Path | None,
    url: str | None,
    cluster: str | None,
    log: Path | None,
    only_options: bool,
    as_json: bool,
) -> None:
    """Say whether a failed job is worth another attempt, with which options, and why.

    The verdict is one of: retry as it is, with more memory, with more time, on another node, do not retry,
    cannot say. It follows from the cause (see `forewarn explain`), from how often the same request was tried
    already, and from what became of earlier resubmissions on this cluster.

    Exit codes: 0 retry, as it is or with the options; 1 do not retry; 3 cannot say, or any error.

    \b
    Examples:
      forewarn retry 123456
      forewarn retry 123456 --json | jq '.verdict, .options, .delay'
      options=$(forewarn retry 123456 --options) && sbatch $options job.sbatch
    """
    if only_options and as_json:
        raise UsageError("--options and --json exclude each other: use one of them")
    from forewarn.assess.wording.reader import Reader

    if client := asked_service(url, home=home, log=log):
        with client:
            verdict = client.retry(job_id, cluster=cluster)
    else:
        from forewarn.operate.retry import retry_job
        from forewarn.serve.cli.terminal.progress import working

        with opened(home=home) as workspace:
            verdict = retry_job(workspace, job_id, cluster=cluster, log=log, working=working)
    reader = Reader.of(verdict.user, getpass.getuser())
    if only_options:
        echo(" ".join(verdict.options))
    elif as_json:
        print_json(verdict.to_json(reader))
    else:
        _print(verdict, reader)
    for message in () if as_json else verdict.notes:
        note(message)
    ctx.exit(verdict.verdict.exit_code)


def _print(verdict: RetryVerdict, reader: Reader) -> None:
    """Print the summary, then the evidence line by line."""
    from forewarn.assess.wording import each
    from forewarn.assess.wording.retries import retry_summary
    from forewarn.formatting import significant

    echo(f"Job {verdict.job_id}: {retry_summary(verdict, reader)}")
    for text in each(verdict.evidence, reader):
        echo(f"  {text}")
    if verdict.hours is not None and verdict.hours_at_risk is not None:
        hours, at_risk = significant(verdict.hours, 2), significant(verdict.hours_at_risk, 2)
        echo(f"  node hours of the retry: about {hours}, at risk {at_risk}")
