"""`forewarn evaluate`: evaluate registered models on later jobs that were not used in training."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from forewarn.formatting import difference, interval, timestamp
from forewarn.serve.cli.commands.common import home_option, json_option, opened
from forewarn.serve.cli.commands.learning import print_evaluations, seed_option
from forewarn.serve.cli.terminal.output import print_facts, print_json
from forewarn.serve.cli.terminal.progress import progress

if TYPE_CHECKING:
    from forewarn.operate.evaluate import EvaluationResult


def _numbers_or_aliases(
    _: click.Context, __: click.Parameter, values: tuple[str, ...]
) -> tuple[int | str, ...]:
    for value in values:
        if not value.isdecimal() and value not in ("champion", "challenger"):
            raise click.BadParameter(f"{value!r}: expected a number, champion or challenger")
    return tuple(int(value) if value.isdecimal() else value for value in values)


@click.command("evaluate")
@click.argument("model", metavar="MODEL")
@click.argument("which", nargs=-1, metavar="[VERSION]...", callback=_numbers_or_aliases)
@home_option
@click.option("-S", "--starttime", "since", metavar="TIME", help="Only jobs submitted at or after TIME.")
@click.option("-E", "--endtime", "until", metavar="TIME", help="Only jobs submitted before TIME.")
@seed_option
@json_option
def command(
    model: str,
    which: tuple[int | str, ...],
    home: Path | None,
    since: str | None,
    until: str | None,
    seed: int,
    as_json: bool,
) -> None:
    """Evaluate registered models on later jobs that were not used in training.

    MODEL is CLUSTER.PHASE.FEATURES as in `forewarn models list`. VERSION is a number, `champion` or
    `challenger`; the default is both aliases, to decide whether to promote the challenger. All versions are
    evaluated on the same jobs, submitted after the training jobs of each of them. Ingest newer jobs before
    evaluating on them: the features of a job depend on the history before it.

    \b
    Examples:
      forewarn evaluate alps.submit.generic                   champion and challenger
      forewarn evaluate alps.submit.generic 3 4 -S now-30days
    """
    from forewarn.operate.evaluate import evaluate

    with opened(home=home) as workspace:
        result = evaluate(workspace, model, *which, since=since, until=until, seed=seed, watch=progress)
    if as_json:
        versions = {f"version {each.version.version}": each.evaluation for each in result.versions}
        about = {"model": str(result.name), "from": result.since, "jobs": result.jobs}
        print_json({**about, "versions": versions, "f1_above_first": result.lead})
    else:
        _print(result)


def _print(result: EvaluationResult) -> None:
    titles = [
        " ".join((f"version {each.version.version}", *each.version.aliases)) for each in result.versions
    ]
    begin = timestamp(result.since, "UTC", name_zone=True)
    print_evaluations(
        f"Evaluation of {result.name} on jobs from {begin} (not used in training)",
        {title: each.evaluation for title, each in zip(titles, result.versions, strict=True)},
    )
    if result.lead:
        bounds = interval(result.lead["interval"], signed=True)
        gain = f"{difference(result.lead['f1'])}  {bounds}".rstrip()
        print_facts("", {f"F1 gain of {titles[1]} over {titles[0]}": gain})
