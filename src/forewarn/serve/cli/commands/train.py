"""`forewarn train`: train a model on a cluster's history, write its report and register it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from forewarn.formatting import count, elapsed, measure, percent
from forewarn.serve.cli.commands.common import home_option, json_option, opened
from forewarn.serve.cli.commands.learning import (
    chosen_families,
    cluster_option,
    features_option,
    phase_option,
    population_option,
    print_evaluations,
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
@population_option
@status_option
@search_options
@click.option("--profiles", "profile_features", is_flag=True, help="Use the job's profile as a feature too.")
@json_option
def command(
    source: str | None,
    home: Path | None,
    families: tuple[str, ...],
    as_json: bool,
    **options: Any,
) -> None:
    """Train, evaluate and register a model of job failure.

    The jobs are split by time into four blocks: models are fitted on the first and selected on the second;
    calibration and threshold are chosen on the third; the last is used for evaluation only. Each training
    writes a report as an HTML page and as JSON.

    The first model of a cluster, phase and feature set becomes its champion, later ones become the
    challenger: `forewarn models promote` lets a challenger serve. A champion that was trained before a
    change in how fields are read is replaced by the new model. An interrupted search resumes when the same
    command is run again.

    SOURCE: train on this instead of the store: a file such as swf:FILE or sacct:FILE, or the accounting of
    the configured Slurm as slurm: (30 days) or slurm:TIME.

    \b
    Examples:
      forewarn train                                    the store's only cluster, at submit
      forewarn train --phase start --trials 50          predict at job start, longer search
      forewarn train --family online                    no search: for the first days
      forewarn train --family lightgbm --threshold precision=0.8
      forewarn train --features restricted --deterministic --seed 7
    """
    from forewarn.operate.train import train

    with opened(home=home) as workspace:
        families = chosen_families(families)
        result = train(workspace, source=source, families=families, watch=progress, note=note, **options)
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

    print_evaluations("Evaluation on later jobs (not used in training)", {"this model": result.evaluation})
    members = ", ".join(f"{percent(member.weight)} {member.family}" for member in result.members)
    print_facts(
        f"\n{result.verdict}",
        {
            "model": "not registered yet; run `forewarn models sync`"
            if result.version is None
            else f"{result.name} version {result.version}, {', '.join(result.aliases)}",
            "ensemble": f"{members}; trained on {count(result.jobs, 'job')}",
            "search": _search_summary(result.search),
            "report": str(result.report),
        },
    )
    for warning in result.warnings:
        if warning["level"] == BAD:
            note(warning["text"])
    if result.promoted_because:
        note(f"this model serves now: {result.promoted_because}")
    if result.version is not None and not result.may_serve and "champion" not in result.aliases:
        note(f"this model does not serve; to serve it anyway: forewarn models promote {result.name}")


def _search_summary(search: Mapping[str, Any] | None) -> str | None:
    """Summarise a search in one line."""
    if search is None:
        return None
    best = search["trials"][search["best"]]
    resumed = f", {search['resumed']} of them before an interruption" if search["resumed"] else ""
    return (
        f"{count(len(search['trials']), 'trial')} in {elapsed(search['wall_seconds'])}{resumed}; "
        f"best: {best['family']}, log loss {measure(best['loss'])}"
    )
