"""`forewarn train`: a model from a cluster's history, with its report, in the registry."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from forewarn.serve.cli.commands.common import home_option, json_option, opened
from forewarn.serve.cli.commands.learning import (
    chosen_families,
    cluster_option,
    features_option,
    phase_option,
    policy_option,
    print_judged,
    search_options,
    status_option,
)
from forewarn.serve.cli.terminal.output import note, print_facts, print_json
from forewarn.serve.cli.terminal.progress import progress

if TYPE_CHECKING:
    from forewarn.operate.train import TrainingResult


@click.command("train")
@click.argument("source", required=False, metavar="[SOURCE]")
@home_option
@cluster_option
@phase_option
@features_option
@policy_option
@status_option
@search_options
@click.option("--profiles", "profile_features", is_flag=True, help="Let a job's profile be a feature too.")
@json_option
def command(
    source: str | None,
    home: Path | None,
    families: tuple[str, ...],
    as_json: bool,
    **how: Any,
) -> None:
    """Make a model from history: searched, calibrated, judged, registered.

    Jobs in order of time are cut into four blocks: models are fitted on the first, chosen on the second,
    calibrated and given their threshold on the third, and judged on the last, which nothing was chosen
    by. What came of it is written at every training: one HTML page, and the same as JSON.

    The first model of a cluster, phase and feature set becomes its champion, a later one the challenger:
    `forewarn models promote` lets it serve. Where the champion was made before a change in how fields are
    read, the new one replaces it. A search that was interrupted goes on where it stopped when
    the same command is given again.

    SOURCE: what to learn from instead of the store: a file, as in swf:FILE or sacct:FILE, or the accounting
    of the Slurm that is configured, slurm: (30 days) or slurm:TIME.

    \b
    Examples:
      forewarn train                                    the store's only cluster, at submit
      forewarn train --phase start --trials 50          another moment, a longer search
      forewarn train --family online                    no search at all: for the first days
      forewarn train --family lightgbm --threshold precision=0.8
      forewarn train --features restricted --deterministic --seed 7
    """
    from forewarn.operate.train import train

    with opened(home=home) as workspace:
        families = chosen_families(families)
        result = train(workspace, source=source, families=families, watch=progress, note=note, **how)
    if as_json:
        print_json(_as_json(result))
    else:
        _print(result)


def _as_json(result: TrainingResult) -> dict[str, Any]:
    figures = ("at_threshold", "baselines", "intervals", "by_decision", "hours", "causes")
    return {
        "model": None if result.version is None else str(result.name),
        "version": result.version,
        "aliases": list(result.aliases),
        "bundle": str(result.bundle),
        "report": str(result.report),
        "metrics": dict(result.metrics),
        "verdict": result.verdict,
        "warnings": list(result.warnings),
        "evaluation": {name: result.evaluation[name] for name in figures},
    }


def _print(result: TrainingResult) -> None:
    from forewarn.learn.report.wording import BAD

    print_judged("On later jobs, which it has not seen", {"this model": result.evaluation})
    members = ", ".join(f"{member.weight:.0%} {member.family}" for member in result.members)
    print_facts(
        f"\n{result.verdict}",
        {
            "model": "not registered yet: `forewarn models sync`"
            if result.version is None
            else f"{result.name} version {result.version}, {', '.join(result.aliases)}",
            "made of": f"{members}; learnt from {result.jobs:,} jobs",
            "search": _searched(result.search),
            "report": str(result.report),
        },
    )
    for warning in result.warnings:
        if warning["level"] == BAD:
            note(warning["text"])
    if result.promoted_because:
        note(f"it serves now: {result.promoted_because}")
    if result.version is not None and not result.may_serve and "champion" not in result.aliases:
        note(f"so it does not serve; if it should all the same: forewarn models promote {result.name}")


def _searched(search: Mapping[str, Any] | None) -> str | None:
    """How a search went, in short."""
    if search is None:
        return None
    best = search["trials"][search["best"]]
    taken_up = f", {search['resumed']} of them before it was taken up again" if search["resumed"] else ""
    trials = len(search["trials"])
    return (
        f"{trials} trial{'s' * (trials > 1)} in {search['wall_seconds']:.0f} s{taken_up}; "
        f"the best: {best['family']}, log loss {best['loss']:.3f}"
    )
