"""`forewarn compare`: compare methods for imbalanced classes on one log."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from forewarn.formatting import count, measure, number, percent_in_table
from forewarn.job.phase import MEASURED, POSTHOC, Phase
from forewarn.learn.evaluation.benchmark import POSTHOC_PROTOCOL
from forewarn.learn.families import FAMILIES
from forewarn.operate.compare import ComparisonResult, compare
from forewarn.serve.cli.commands.common import home_option, json_option, opened
from forewarn.serve.cli.commands.learning import (
    cluster_option,
    features_option,
    population_option,
    seed_option,
    status_option,
)
from forewarn.serve.cli.terminal.output import note, print_facts, print_json, print_table, say
from forewarn.serve.cli.terminal.progress import progress

WORDS = {
    "none": "all jobs",
    "weights": "class weights",
    "oversample": "oversampling",
    "smote": "SMOTE",
    "active": "active learning",
    "random": "random sample",
}
FigureColumn = Callable[[Mapping[str, Any]], str]  # formats a figure of an entry
FigureColumns = dict[str, FigureColumn]


@click.command("compare")
@click.argument("source", required=False, metavar="[SOURCE]")
@home_option
@cluster_option
@click.option(
    "--phase",
    type=click.Choice(MEASURED),
    default=Phase.SUBMIT,
    show_default=True,
    help="Moment of the prediction; posthoc as the papers: with run time and CPU time.",
)
@features_option
@population_option
@click.option(
    "--family",
    "family_name",
    type=click.Choice(FAMILIES),
    default="xgboost",
    show_default=True,
    help="Model family.",
)
@status_option
@seed_option
@json_option
def command(
    source: str | None,
    home: Path | None,
    family_name: str,
    as_json: bool,
    **options: Any,
) -> None:
    """Compare methods for imbalanced classes: few failures among many jobs.

    The same model is fitted on the whole train block, with class weights, with repeated failures
    (oversampling), with synthetic failures (SMOTE), on the jobs that active learning selects, and on as
    many random jobs (mean of five samples). Each is evaluated on the later test block: precision, recall
    and F1 of failed/completed jobs.

    SOURCE: train on a file instead of the store, such as swf:FILE or sacct:FILE.

    \b
    Examples:
      forewarn compare
      forewarn compare swf:CTC-SP2-1996-3.1-cln.swf.gz --features swf --population papers
      forewarn compare --family lightgbm --phase start --json
    """
    with opened(home=home) as workspace:
        result = compare(workspace, source, family=family_name, watch=progress, note=note, **options)
    if as_json:
        test = {"n": result.jobs, "base_rate": result.failed / result.jobs}
        about = {"phase": result.phase, "features": result.feature_set, "policy": result.population}
        settings = {"family": result.family, "seed": result.seed}
        print_json({"log": result.log, **about, **settings, "test": test, "ways": result.ways})
    else:
        _print(result)


def _print(result: ComparisonResult) -> None:
    found = result.ways
    active = next(entry for entry in found if entry["way"] == "active")
    print_facts(
        f"{result.log} at {result.phase}: {result.family}, features {result.feature_set}",
        {
            "protocol": POSTHOC_PROTOCOL if result.phase == POSTHOC else None,
            "population": result.failures,
            "trained on": _counted(found[0]["jobs"], found[0]["failed"]),
            "evaluated on": _counted(result.jobs, result.failed) + ", all later",
            "active learning": f"best of {count(len(active['rounds']['history']), 'round')} used "
            + _counted(active["jobs"], active["failed"]),
        },
    )
    ranks: FigureColumns = {
        "ROC-AUC": lambda e: measure(e["roc_auc"]),
        "PR-AUC": lambda e: measure(e["pr_auc"]),
    }
    # A row of spreads has no number of jobs.
    jobs: FigureColumns = {"jobs": lambda e: number(e["jobs"]) if "jobs" in e else ""}
    _print_methods("Threshold 0.5", found, jobs | _at("at_0_5") | ranks)
    chosen: FigureColumns = {"threshold": lambda e: measure(e["at_validation"]["threshold"], 2)}
    _print_methods("Threshold with the best F1 on the preceding block", found, chosen | _at("at_validation"))


def _counted(jobs: int, failed: int) -> str:
    return f"{count(jobs, 'job')}, {percent_in_table(failed / jobs)} failed"


def _at(threshold: str) -> FigureColumns:
    """Return the columns that depend on the threshold, for failed and completed jobs where both apply."""

    def both(name: str) -> FigureColumn:
        return lambda e: "/".join(measure(e[threshold][label][name]) for label in ("failed", "completed"))

    return {
        "precision": both("precision"),
        "recall": both("recall"),
        "F1": both("f1"),
        "accuracy": lambda e: measure(e[threshold]["accuracy"]),
    }


def _print_methods(title: str, found: Sequence[Mapping[str, Any]], columns: FigureColumns) -> None:
    print_facts(f"\n{title} (failed/completed jobs)", {})
    rows = []
    for entry in found:
        rows.append((WORDS[entry["way"]], *(column(entry) for column in columns.values())))
        if "spread" in entry:
            spread = entry["spread"]
            rows.append(
                (f"  ± of {entry['choices']} samples", *(column(spread) for column in columns.values()))
            )
    left_out = print_table(
        ("trained on", *columns), rows, right=columns, drop=("ROC-AUC", "jobs", "PR-AUC", "threshold")
    )
    if left_out:
        say(f"columns that do not fit the terminal: {', '.join(left_out)}; --json prints all")
