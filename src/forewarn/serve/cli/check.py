"""`forewarn check`: a batch script, before it is submitted."""

from __future__ import annotations

import gc
import getpass
import os
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from forewarn.errors import ForewarnError, UsageError
from forewarn.serve.cli.checks import Check
from forewarn.serve.cli.common import configured, home_option, json_option
from forewarn.serve.cli.learning import cluster_option
from forewarn.serve.cli.moments import parse_moment
from forewarn.serve.cli.output import print_json, say

if TYPE_CHECKING:
    from forewarn.assess.assessor import Assessor
    from forewarn.config import Config
    from forewarn.operate.check import Checked
    from forewarn.store.base import Store


@click.command("check", cls=Check)
@click.argument("script", type=click.Path(path_type=Path), metavar="SCRIPT")
@click.argument("options", nargs=-1, metavar="[-- SBATCH OPTION...]")
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
    "--fix", is_flag=True, help="Write the advised script beside it: job.sbatch to job.fixed.sbatch."
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
    script: Path,
    options: tuple[str, ...],
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
    """Check a batch script before it is submitted: will it fail, why, and what to change.

    The script is read as sbatch reads it, and nothing of it is run. What is missing, misspelt or cannot be
    is found at once; how long the job will take, how much memory it needs and whether it will fail is told
    from what became of jobs like it, as far as history and a model are at hand.

    Options that you would give to sbatch go behind `--`.

    \b
    Exit codes: 0 fine, 1 warning, 2 likely to fail, 3 cannot say (and every error).

    \b
    Examples:
      forewarn check job.sbatch
      forewarn check job.sbatch --diff -- --mem=8G --time=2:00:00
      forewarn check job.sbatch --fix; sbatch job.fixed.sbatch
      forewarn check job.sbatch --json | jq .verdict
    """
    from forewarn.compiled import interpret

    interpret()  # one job's features: sooner than Numba is loaded
    gc.disable()  # a short life, whose imports alone would be looked through a dozen times
    context.call_on_close(gc.enable)
    from forewarn.assess.script import Here
    from forewarn.operate.check import check
    from forewarn.serve.cli.assessing import show

    config = configured(home=home, model=model)
    moment = int(time.time())
    if at is not None:
        moment = parse_moment(at, config.of_cluster(cluster).timezone or "UTC", datetime.now(UTC))
    who = user or getpass.getuser()
    with ExitStack() as stack:
        found = _assessor(stack, config, cluster, who, moment)
        store, assessor = found if found else (None, None)
        checked = check(
            script,
            Here(),
            cluster=assessor.cluster if assessor else cluster or config.cluster or "",
            user=who,
            at=moment,
            work_dir=Path.cwd(),
            command_line=options,
            environment=os.environ,
            store=store,
            assessor=assessor,
            ask_slurm=test_only,
        )
    made = checked.assessment
    if fix:
        _write_fixed(script, checked)
    if figure is not None and not made.reasons:
        say("no model spoke: there are no reasons to draw")
    elif figure is not None:
        from forewarn.assess.explanation import waterfall_svg

        figure.write_text(waterfall_svg(made.reasons), encoding="utf-8")
        say(f"wrote {figure}")
    if as_json:
        print_json(made.to_json())
    else:
        show(made, str(script), diff=diff)
    context.exit(made.verdict.exit_code)


def _write_fixed(script: Path, checked: Checked) -> None:
    """Beside the script, in the place of one that was written there before."""
    from forewarn.files import whole_file
    from forewarn.operate.check import read_bytes

    fixed = checked.fixed(read_bytes(script))
    if fixed is None:
        say("there is nothing that could be mended for you: no script written")
        return
    beside = script.with_suffix(f".fixed{script.suffix}")
    with whole_file(beside) as partial:
        partial.write_bytes(fixed)
        partial.chmod(script.stat().st_mode & 0o777)
    say(f"wrote {beside}")


def _assessor(
    stack: ExitStack, config: Config, cluster: str | None, user: str, at: int
) -> tuple[Store, Assessor] | None:
    """Who can say what became of jobs like it; nobody where nothing is known."""
    from forewarn.operate.knowing import knowledge

    try:
        return stack.enter_context(knowledge(config, cluster=cluster, user=user, at=at))
    except UsageError:
        raise
    except ForewarnError as error:
        say(f"only the script is looked at: {error}")
        return None
