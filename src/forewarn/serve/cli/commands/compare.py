"""`forewarn compare`: the ways to deal with few failures among many jobs, on one log, in one table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from forewarn.job.phase import MEASURED, POSTHOC, Phase
from forewarn.learn.evaluation.benchmark import POSTHOC_PROTOCOL
from forewarn.learn.families import FAMILIES
from forewarn.operate.compare import ComparisonResult, compare
from forewarn.serve.cli.commands.common import home_option, json_option, opened
from forewarn.serve.cli.commands.learning import (
    cluster_option,
    features_option,
    policy_option,
    seed_option,
    status_option,
)
from forewarn.serve.cli.terminal.output import note, print_facts, print_json, print_table, say
from forewarn.serve.cli.terminal.progress import progress

WORDS = {
    "none": "as it is",
    "weights": "class weights",
    "oversample": "oversampling",
    "smote": "SMOTE",
    "active": "active learning",
    "random": "random choice",
}
Column = Callable[[Mapping[str, Any]], str]  # how a figure of an entry is shown
Columns = dict[str, Column]


@click.command("compare")
@click.argument("source", required=False, metavar="[SOURCE]")
@home_option
@cluster_option
@click.option(
    "--phase",
    type=click.Choice(MEASURED),
    default=Phase.SUBMIT,
    show_default=True,
    help="As of which moment. posthoc adds run and CPU time, as the papers do: known only at the end.",
)
@features_option
@policy_option
@click.option(
    "--family",
    "family_name",
    type=click.Choice(FAMILIES),
    default="xgboost",
    show_default=True,
    help="The models.",
)
@status_option
@seed_option
@json_option
def command(
    source: str | None,
    home: Path | None,
    family_name: str,
    as_json: bool,
    **how: Any,
) -> None:
    """Compare the ways to deal with few failures among many jobs.

    The same model is fitted on the train block as it is, with class weights, with failures repeated
    (oversampling), with failures made up between real ones (SMOTE), on the jobs that active learning
    picks, and on as many random ones (the mean of five choices). Each is judged on the test block, which
    lies after all that any of them saw: precision, recall and F1 of failed / completed jobs.

    SOURCE: a file to learn from instead of the store, as in swf:FILE or sacct:FILE.

    \b
    Examples:
      forewarn compare
      forewarn compare swf:CTC-SP2-1996-3.1-cln.swf.gz --features swf --policy papers
      forewarn compare --family lightgbm --phase start --json
    """
    with opened(home=home) as workspace:
        result = compare(workspace, source, family=family_name, watch=progress, note=note, **how)
    if as_json:
        test = {"n": result.jobs, "base_rate": result.failed / result.jobs}
        about = {"phase": result.phase, "features": result.feature_set, "policy": result.policy}
        made = {"family": result.family, "seed": result.seed}
        print_json({"log": result.log, **about, **made, "test": test, "ways": result.ways})
    else:
        _print(result)


def _print(result: ComparisonResult) -> None:
    found = result.ways
    active = next(entry for entry in found if entry["way"] == "active")
    print_facts(
        f"{result.log} at {result.phase}: {result.family}, features {result.feature_set}",
        {
            "protocol": POSTHOC_PROTOCOL if result.phase == POSTHOC else None,
            "failures": result.failures,
            "learnt from": _counted(found[0]["jobs"], found[0]["failed"]),
            "judged on": _counted(result.jobs, result.failed) + ", all later",
            "active learning": f"the best of {len(active['rounds']['history'])} rounds had "
            + _counted(active["jobs"], active["failed"]),
        },
    )
    ranks: Columns = {"ROC-AUC": lambda e: f"{e['roc_auc']:.3f}", "PR-AUC": lambda e: f"{e['pr_auc']:.3f}"}
    jobs: Columns = {"jobs": lambda e: f"{e['jobs']:,}" if "jobs" in e else ""}  # a spread has none
    _print_ways("Threshold 0.5", found, jobs | _at("at_0_5") | ranks)
    chosen: Columns = {"threshold": lambda e: f"{e['at_validation']['threshold']:.2f}"}
    _print_ways("Threshold with the best F1 on the block before", found, chosen | _at("at_validation"))


def _counted(jobs: int, failed: int) -> str:
    return f"{jobs:,} jobs, of which {failed / jobs:.1%} failed"


def _at(threshold: str) -> Columns:
    """What depends on the threshold; of both classes where there are two."""

    def both(measure: str) -> Column:
        return lambda e: f"{e[threshold]['failed'][measure]:.3f}/{e[threshold]['completed'][measure]:.3f}"

    return {
        "precision": both("precision"),
        "recall": both("recall"),
        "F1": both("f1"),
        "accuracy": lambda e: f"{e[threshold]['accuracy']:.3f}",
    }


def _print_ways(title: str, found: Sequence[Mapping[str, Any]], columns: Columns) -> None:
    print_facts(f"\n{title}, failed/completed jobs", {})
    rows = []
    for entry in found:
        rows.append((WORDS[entry["way"]], *(column(entry) for column in columns.values())))
        if "spread" in entry:
            spread = entry["spread"]
            rows.append((f"  ± over {entry['choices']}", *(column(spread) for column in columns.values())))
    left_out = print_table(
        ("trained on", *columns), rows, right=columns, drop=("ROC-AUC", "jobs", "PR-AUC", "threshold")
    )
    if left_out:
        say(f"no room for {', '.join(left_out)}; --json has all")
