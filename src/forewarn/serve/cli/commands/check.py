"""`forewarn check`: check batch scripts before they are submitted."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from forewarn.errors import UsageError
from forewarn.serve.cli.commands.common import home_option, json_option, opened
from forewarn.serve.cli.commands.exit_status import UNKNOWN, StatusCommand
from forewarn.serve.cli.commands.learning import cluster_option
from forewarn.serve.cli.remote.service import asked_service, url_option
from forewarn.serve.cli.terminal.output import print_json, say
from forewarn.serve.cli.terminal.safe_text import echo

if TYPE_CHECKING:
    from forewarn.assess.assessment import Assessment
    from forewarn.operate.checked_scripts import CheckResult

STDIN = "-"


class ScriptCheck(StatusCommand):
    """A command that takes scripts, and after `--` options for sbatch."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Separate the options after `--`: click would take them for more scripts."""
        at = args.index("--") if "--" in args else len(args)
        ctx.meta[_SBATCH] = tuple(args[at + 1 :])
        return super().parse_args(ctx, args[:at])

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the usage line with the options for sbatch."""
        formatter.write_usage(ctx.command_path, "[OPTIONS] SCRIPT... [-- SBATCH OPTION...]")


_SBATCH = "forewarn.sbatch"


@click.command("check", cls=ScriptCheck)
@click.argument("scripts", nargs=-1, required=True, metavar="SCRIPT...")
@home_option
@url_option
@cluster_option
@click.option("-u", "--user", metavar="NAME", help="User who will submit the job.  [default: you]")
@click.option(
    "--model",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Use this bundle, as written by `forewarn models export`.  [env: FOREWARN_MODEL]",
)
@click.option(
    "--at",
    metavar="TIME",
    help="Assess as if submitted at this time, with the whole history.  [default: now]",
)
@click.option("--diff", is_flag=True, help="Show the first advice as a diff of the script.")
@click.option(
    "--fix",
    is_flag=True,
    help="Write the script with the advice applied (job.sbatch to job.fixed.sbatch), and check it.",
)
@click.option(
    "--figure",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Draw the reasons as a waterfall chart, in SVG.",
)
@click.option("--test-only/--no-test-only", default=True, help="Also run `sbatch --test-only`, if available.")
@json_option
@click.pass_context
def command(
    context: click.Context,
    /,
    scripts: tuple[str, ...],
    home: Path | None,
    url: str | None,
    model: Path | None,
    at: str | None,
    diff: bool,
    fix: bool,
    figure: Path | None,
    test_only: bool,
    as_json: bool,
    **how: Any,
) -> None:
    """Check batch scripts before submission: will they fail, why, and what to change.

    A script is read as sbatch reads it; nothing in it is run. What is missing, misspelt or impossible is
    reported. Run time, memory and the risk of failure are estimated from the outcomes of similar jobs, where
    there is a history and a model; FOREWARN_URL or --url asks a service for that part.

    `-` reads a script from standard input. Options for sbatch follow `--`.

    \b
    Exit codes: 0 fine, 1 warning, 2 likely to fail, 3 cannot say (and every error);
    the worst of several scripts.

    \b
    Examples:
      forewarn check job.sbatch
      forewarn check job.sbatch --diff -- --mem=8G --time=2:00:00
      forewarn check job.sbatch --fix && sbatch job.fixed.sbatch
      forewarn check runs/*.sbatch
      generate-job | forewarn check -
      forewarn check job.sbatch --json | jq .verdict
    """
    if fix and STDIN in scripts:
        raise UsageError("--fix writes a file beside the script: give a file, not standard input")
    if figure is not None and len(scripts) > 1:
        raise UsageError("--figure draws one script: check one script at a time")
    how |= {
        "options": context.meta[_SBATCH],
        "ask_slurm": test_only,
        "fix": fix,
        "standard_input": sys.stdin.buffer.read() if STDIN in scripts else None,
        "note": say,
    }
    if client := asked_service(url, home=home, model=model, at=at):
        from forewarn.serve.cli.remote.check import check_scripts_remotely

        result = check_scripts_remotely(client, *scripts, **how)
    else:
        from forewarn.operate.check_scripts import check_scripts
        from forewarn.serve.cli.terminal.progress import working

        with opened(home=home, model=model) as workspace:
            result = check_scripts(workspace, *scripts, at=at, working=working, **how)
    _show(result, figure, diff=diff, as_json=as_json)
    context.exit(UNKNOWN if result.worst is None else result.worst.exit_code)


def _show(result: CheckResult, figure: Path | None, *, diff: bool, as_json: bool) -> None:
    """Print each script, or all of them as JSON: one object for one script, else a list."""
    from forewarn.serve.cli.terminal.assessment import show

    for error in result.errors.values():
        say(f"error: {error}")
    for place, one in enumerate(result.checked):
        if figure is not None:
            _draw(figure, one.assessment)
        if not as_json:
            if place:
                echo()
            title = "standard input" if one.script == STDIN else one.script
            show(one.assessment, title, diff=diff, fixed=one.fixed)
    if as_json:
        checks = [one.to_json() for one in result.checked]
        print_json(checks[0] if len(checks) == 1 and not result.errors else checks)


def _draw(figure: Path, assessment: Assessment) -> None:
    if not assessment.reasons:
        say("no figure: without a model there are no reasons to draw")
        return
    from forewarn.assess.wording import waterfall_svg
    from forewarn.files import write_file

    write_file(figure, waterfall_svg(assessment.reasons))
    say(f"wrote {figure}")
