"""What the commands of the learning room share: their options, and how what was judged is shown."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import click

from forewarn.job.phase import PHASES, Phase
from forewarn.serve.cli.commands.common import Decorator
from forewarn.serve.cli.terminal.figures import print_figures
from forewarn.serve.cli.terminal.output import print_facts, print_table
from forewarn.serve.cli.terminal.safe_text import echo

FAMILIES = ("xgboost", "lightgbm", "catboost", "forest", "online")
POPULATIONS = ("wasted", "wasted-started", "wasted-2min", "papers", "papers-started", "papers-2min")
BALANCINGS = ("none", "weights", "oversample", "smote", "active")

cluster_option: Decorator = click.option(
    "-M", "--cluster", metavar="NAME", help="Whose jobs.  [default: the only one there is]"
)


def _policy_option(default: str) -> Decorator:
    return click.option(
        "--policy",
        type=click.Choice(POPULATIONS),
        metavar="NAME",
        help="What counts as failure, and which jobs take part: wasted (without preempted and "
        "user-cancelled jobs) or papers (everything but completed is a failure). With -started behind it, "
        "jobs that never started are left out; with -2min also those that ran under two minutes.  "
        f"[default: {default}]",
    )


policy_option = _policy_option("as configured, else wasted")
bench_policy_option = _policy_option("papers")
phase_option: Decorator = click.option(
    "--phase",
    type=click.Choice(PHASES),
    default=Phase.SUBMIT,
    show_default=True,
    help="The moment at which the model answers.",
)


def _features_option(default: str | None, told: str) -> Decorator:
    return click.option(
        "--features",
        "feature_set",
        type=click.Choice(("generic", "restricted", "swf")),
        default=default,
        help="generic: what most Slurm sites have; restricted: no identity and no history, for new users; "
        f"swf: only what the Standard Workload Format carries.  [default: {told}]",
    )


features_option = _features_option("generic", "generic")
bench_features_option = _features_option(None, "swf for an SWF file, else generic")
status_option: Decorator = click.option(
    "--status", metavar="HOW", help="How an SWF log's status is read; see `forewarn ingest --help`."
)
seed_option: Decorator = click.option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    default=0,
    show_default=True,
    metavar="N",
    help="Another seed, another course of chance.",
)


def search_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options of everything that searches for a model."""
    for option in reversed(
        (
            click.option(
                "--family",
                "families",
                type=click.Choice((*FAMILIES, "all")),
                multiple=True,
                default=("all",),
                show_default=True,
                metavar="NAME",
                help="Which models to try: xgboost, lightgbm, catboost, forest (a random forest), online "
                "(the features' own regression, without any training run), or all: the best of each, "
                "averaged, online counting a third. May be given again.",
            ),
            click.option(
                "--trials",
                type=click.IntRange(1),
                default=20,
                show_default=True,
                metavar="N",
                help="How many settings the search tries, at least one of each family.",
            ),
            click.option(
                "--search",
                "method",
                type=click.Choice(("tpe", "random")),
                default="tpe",
                show_default=True,
                help="How the next setting is chosen: from what the others gave (tpe), or at random.",
            ),
            click.option(
                "--imbalance",
                type=click.Choice(BALANCINGS),
                default="none",
                show_default=True,
                metavar="WAY",
                help="How few failures among many jobs are dealt with: none, weights, oversample, smote or "
                "active; `forewarn compare` compares them.",
            ),
            click.option(
                "--threshold",
                default="f1",
                show_default=True,
                metavar="RULE",
                help="From which probability on it warns: f1, expected-f1, precision=0.8, recall=0.6, or "
                "cost=20 (node hours that a false alarm costs).",
            ),
            seed_option,
            click.option(
                "--deterministic",
                is_flag=True,
                help="The same result for the same seed on this machine; the search takes longer.",
            ),
            click.option(
                "--ray-address",
                metavar="ADDRESS",
                help="Search on this Ray cluster, as HOST:6379.  [default: on this machine]",
            ),
        )
    ):
        command = option(command)
    return command


def chosen_families(given: tuple[str, ...]) -> tuple[str, ...]:
    """The families that were asked for, in their usual order."""
    return tuple(name for name in FAMILIES if name in given or "all" in given)


RULES = {
    "majority": "the more frequent outcome",
    "last_user": "last outcome: user",
    "last_user_name": "last outcome: user, name",
    "last_user_name_else_user": "last outcome: user, name, else user",
    "last_user_request": "last outcome: user, request",
    "last_user_request_else_user": "last outcome: user, request, else user",
    "last_request": "last outcome: request, of anyone",
    "last_array": "last outcome: array",
    "last_array_else_request": "last outcome: array, else request",
}
_RANKING = {"roc_auc": "ROC-AUC", "pr_auc": "PR-AUC", "brier": "Brier", "ece": "ECE"}
_MEASURES = ("accuracy", "precision", "recall", "f1")


def print_judged(title: str, judged: Mapping[str, Mapping[str, Any]]) -> None:
    """How good models were, by name, with intervals, beside the simple rules on the same jobs."""
    one = next(iter(judged.values()))
    base_rate = one["ranking"]["base_rate"]
    print_facts(title, {"jobs": f"{one['ranking']['n']:,}, of which {base_rate:.1%} failed"})
    print_table(
        ["figure [95 %]", *judged],
        [
            [words, *(_with_interval(name, evaluation) for evaluation in judged.values())]
            for name, words in _RANKING.items()
        ],
    )
    own = {f"{who}, threshold {e['threshold']['value']:.2f}": e["at_threshold"] for who, e in judged.items()}
    print_alarms(own, one["baselines"], base_rate)
    for who, evaluation in judged.items():
        if len(judged) > 1:
            echo(f"\n{who}")
        print_figures(evaluation, RULES)


def print_alarms(
    own: Mapping[str, Mapping[str, float]], rules: Mapping[str, Mapping[str, float]], base_rate: float
) -> None:
    """What the alarms of a model are worth, above those of the simple rules."""
    echo()
    rows = {**own, **{words: rules[name] for name, words in RULES.items() if name in rules}}
    print_table(
        ["warns by", *_MEASURES],
        [[what, *_cells(row, base_rate)] for what, row in rows.items()],
        right=_MEASURES,
    )


def _cells(row: Mapping[str, float], base_rate: float) -> list[str | None]:
    """The measures of a row. Who never warns has no precision.

    >>> _cells({"accuracy": 0.75, "precision": 0.0, "recall": 0.0, "f1": 0.0}, 0.25)
    ['0.750', None, '0.000', '0.000']
    """
    silent = row["recall"] == 0 and math.isclose(row["accuracy"], 1 - base_rate)
    return [None if silent and name == "precision" else f"{row[name]:.3f}" for name in _MEASURES]


def _with_interval(name: str, evaluation: Mapping[str, Any]) -> str | None:
    value, interval = evaluation["ranking"][name], evaluation["intervals"].get(name)
    if value is None:
        return None
    return f"{value:.3f}" + (f"  [{interval[0]:.3f}, {interval[1]:.3f}]" if interval else "")
