"""`forewarn check`: a batch script, before it is submitted."""

from __future__ import annotations

import getpass
import os
import sys
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from forewarn.errors import ForewarnError, UsageError
from forewarn.job.moments import parse_moment
from forewarn.serve.cli.checks import UNKNOWN, Check
from forewarn.serve.cli.common import configured, home_option, json_option
from forewarn.serve.cli.learning import cluster_option
from forewarn.serve.cli.output import print_json, say
from forewarn.serve.cli.terminal import echo

if TYPE_CHECKING:
    from forewarn.assess.assessment import Assessment
    from forewarn.assess.assessor import Assessor
    from forewarn.config import Config
    from forewarn.operate.check import Checked, Submission
    from forewarn.serve.cli.assessing import Fixed
    from forewarn.store.base import Store


STDIN = "-"
NAMELESS = "sbatch"  # as Slurm calls a job whose script came by standard input
# The worst of several verdicts, by what it asks of a person.
_WORST = ("fine", "cannot_say", "warning", "likely_to_fail")


class ScriptCheck(Check):
    """Scripts, and behind `--` what sbatch would be given."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep what stands behind `--` apart: to click it would be more scripts."""
        at = args.index("--") if "--" in args else len(args)
        ctx.meta[_SBATCH] = tuple(args[at + 1 :])
        return super().parse_args(ctx, args[:at])

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """As it is typed."""
        formatter.write_usage(ctx.command_path, "[OPTIONS] SCRIPT... [-- SBATCH OPTION...]")


_SBATCH = "forewarn.sbatch"


@click.command("check", cls=ScriptCheck)
@click.argument("scripts", nargs=-1, required=True, metavar="SCRIPT...")
@home_option
@cluster_option
@click.option("-u", "--user", metavar="NAME", help="Whose job it will be.  [default: yours]")
@click.option(
    "--model",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Judge by this bundle, as `forewarn models export` wrote it.  [env: FOREWARN_MODEL]",
)
@click.option(
    "--at",
    metavar="MOMENT",
    help="As if it were submitted then, by all that the history knows.  [default: now]",
)
@click.option("--diff", is_flag=True, help="Show the first advice as a diff of the script.")
@click.option(
    "--fix",
    is_flag=True,
    help="Write the advised script beside it, job.sbatch to job.fixed.sbatch, and check that.",
)
@click.option(
    "--figure",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the reasons as a waterfall, an SVG picture.",
)
@click.option("--test-only/--no-test-only", default=True, help="Ask `sbatch --test-only` too, where it is.")
@json_option
@click.pass_context
def command(
    context: click.Context,
    scripts: tuple[str, ...],
    home: Path | None,
    cluster: str | None,
    user: str | None,
    model: Path | None,
    at: str | None,
    diff: bool,
    fix: bool,
    figure: Path | None,
    test_only: bool,
    as_json: bool,
) -> None:
    """Check batch scripts before they are submitted: will they fail, why, and what to change.

    A script is read as sbatch reads it, and nothing of it is run. What is missing, misspelt or impossible
    is found at once; how long the job will take, how much memory it needs and whether it will fail is
    estimated from what became of jobs like it, as far as history and a model are at hand.

    `-` reads a script from standard input. Options that you would give to sbatch go behind `--`.

    \b
    Exit codes: 0 fine, 1 warning, 2 likely to fail, 3 cannot say (and every error);
    of several scripts the worst.

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
        raise UsageError("--fix writes beside a script: give it a file, not standard input")
    if figure is not None and len(scripts) > 1:
        raise UsageError("--figure draws one script: check the others without it")
    from forewarn.assess.script import Here
    from forewarn.operate.check import Submission
    from forewarn.serve.cli.assessing import show

    config = configured(home=home, model=model)
    moment = int(time.time())
    if at is not None:
        moment = parse_moment(at, config.of_cluster(cluster).timezone or "UTC", datetime.now(UTC))
    who = user or getpass.getuser()
    made: list[tuple[str, Assessment, Fixed | None]] = []
    failed = False
    with ExitStack() as stack:
        found = _assessor(stack, config, cluster, who, moment)
        store, assessor = found if found else (None, None)
        submission = Submission(
            surroundings=Here(),
            cluster=assessor.cluster if assessor else cluster or config.cluster or "",
            user=who,
            at=moment,
            work_dir=Path.cwd(),
            command_line=context.meta[_SBATCH],
            environment=os.environ,
            store=store,
            assessor=assessor,
            ask_slurm=test_only,
        )
        for script in scripts:
            try:
                made.append((script, *_checked(script, submission, fix=fix)))
            except UsageError as error:
                if len(scripts) == 1:
                    raise
                failed = True
                say(f"error: {error}")
    for place, (script, assessment, fixed) in enumerate(made):
        if figure is not None:
            _draw(figure, assessment)
        if not as_json:
            if place:
                echo()
            show(assessment, "standard input" if script == STDIN else script, diff=diff, fixed=fixed)
    if as_json:
        told = [
            {"script": script, **assessment.to_json(), "fixed": fixed.to_json() if fixed else None}
            for script, assessment, fixed in made
        ]
        print_json(told[0] if len(scripts) == 1 else told)
    worst = max((a.verdict for _, a, _ in made), key=lambda verdict: _WORST.index(verdict), default=None)
    if worst is None or (failed and _WORST.index(worst) < _WORST.index("warning")):
        context.exit(UNKNOWN)
    context.exit(worst.exit_code)


def _checked(script: str, submission: Submission, *, fix: bool) -> tuple[Assessment, Fixed | None]:
    """One script; with `fix` the better one is written beside it, and checked as it was written."""
    from forewarn.operate.check import check, read_bytes

    if script == STDIN:
        checked = check(sys.stdin.buffer.read(), Path(STDIN), submission, name=NAMELESS)
    else:
        checked = check(read_bytes(Path(script)), Path(script), submission)
    return checked.assessment, _fixed(Path(script), checked, submission) if fix else None


def _fixed(script: Path, checked: Checked, submission: Submission) -> Fixed | None:
    """Beside the script, in the place of one that was written there before."""
    from forewarn.files import whole_file
    from forewarn.operate.check import check
    from forewarn.serve.cli.assessing import Fixed

    raw = checked.fixed()
    if raw is None:
        say("there is nothing that could be fixed for you: no script written")
        return None
    beside = script.with_suffix(f".fixed{script.suffix}")
    with whole_file(beside) as partial:
        partial.write_bytes(raw)
        partial.chmod(script.stat().st_mode & 0o777)
    say(f"wrote {beside}")
    return Fixed(str(beside), check(raw, beside, submission).assessment)


def _draw(figure: Path, made: Assessment) -> None:
    if not made.reasons:
        say("no model spoke: there are no reasons to draw")
        return
    from forewarn.assess.wording import waterfall_svg
    from forewarn.files import write_file

    write_file(figure, waterfall_svg(made.reasons))
    say(f"wrote {figure}")


def _assessor(
    stack: ExitStack, config: Config, cluster: str | None, user: str, at: int
) -> tuple[Store, Assessor] | None:
    """Who can say what became of jobs like it; nobody where nothing is known."""
    from forewarn.operate.once import knowledge
    from forewarn.serve.cli.progress import working

    try:
        return stack.enter_context(knowledge(config, cluster=cluster, user=user, at=at, working=working))
    except UsageError:
        raise
    except ForewarnError as error:
        say(f"only the script is checked: {error}")
        return None
