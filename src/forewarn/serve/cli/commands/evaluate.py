"""`forewarn evaluate`: how good registered models are on jobs that none of them has learnt from."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from forewarn.serve.cli.commands.common import home_option, json_option, opened
from forewarn.serve.cli.commands.learning import print_judged, seed_option
from forewarn.serve.cli.terminal.output import print_facts, print_json
from forewarn.serve.cli.terminal.progress import progress

if TYPE_CHECKING:
    from forewarn.operate.evaluate import EvaluationResult


def _numbers_or_aliases(
    _: click.Context, __: click.Parameter, given: tuple[str, ...]
) -> tuple[int | str, ...]:
    for one in given:
        if not one.isdecimal() and one not in ("champion", "challenger"):
            raise click.BadParameter(f"{one!r}: give a number, champion or challenger")
    return tuple(int(one) if one.isdecimal() else one for one in given)


@click.command("evaluate")
@click.argument("model", metavar="MODEL")
@click.argument("which", nargs=-1, metavar="[VERSION]...", callback=_numbers_or_aliases)
@home_option
@click.option("-S", "--starttime", "since", metavar="TIME", help="Only jobs submitted from then on.")
@click.option("-E", "--endtime", "until", metavar="TIME", help="Only jobs submitted before.")
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
    """Judge registered models on jobs that none of them has learnt from.

    MODEL is CLUSTER.PHASE.FEATURES as `forewarn models list` names it. VERSION is a number, `champion` or
    `challenger`; by default both of them, so that one sees whether to promote. All are judged on the same
    jobs, submitted after what any of them learnt from. To judge on newer ones, ingest them first: what was
    knowable of a job rests on the history before it.

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
    begin = datetime.fromtimestamp(result.since, UTC).strftime("%Y-%m-%d %H:%M UTC")
    print_judged(
        f"{result.name} on jobs from {begin} on, which it has not learnt from",
        {title: each.evaluation for title, each in zip(titles, result.versions, strict=True)},
    )
    if result.lead:
        interval = result.lead["interval"]
        between = f"  [{interval[0]:+.3f}, {interval[1]:+.3f}]" if interval else ""
        print_facts("", {f"F1 of {titles[1]} above {titles[0]}": f"{result.lead['f1']:+.3f}{between}"})
