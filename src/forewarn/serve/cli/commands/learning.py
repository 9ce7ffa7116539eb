"""Options shared by the commands that train and evaluate, and tables of their results."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from forewarn.formatting import interval, measure, number, percent_in_table
from forewarn.job.phase import PHASES, Phase
from forewarn.serve.cli.commands.common import Decorator
from forewarn.serve.cli.terminal.figures import print_figures
from forewarn.serve.cli.terminal.output import print_facts, print_table
from forewarn.serve.cli.terminal.safe_text import echo

FAMILIES = ("xgboost", "lightgbm", "catboost", "forest", "online")
POPULATIONS = ("wasted", "wasted-started", "wasted-2min", "papers", "papers-started", "papers-2min")
BALANCINGS = ("none", "weights", "oversample", "smote", "active")

cluster_option: Decorator = click.option(
    "-M", "--cluster", metavar="NAME", help="Cluster.  [default: the only one in the store]"
)


class RenamedOption(click.Option):
    """An option that still accepts its older name, which the help does not show."""

    def __init__(self, names: Sequence[str], *, old_name: str, **settings: Any) -> None:
        super().__init__([*names, old_name], **settings)
        self.old_name = old_name

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return the names and the help text without the older name."""
        record = super().get_help_record(ctx)
        return record and (record[0].replace(f", {self.old_name}", ""), record[1])

    def get_error_hint(self, ctx: click.Context | None) -> str:  # noqa: ARG002 - click's signature
        """Return the current name, for messages."""
        return f"'{self.opts[0]}'"


def _population_option(default: str) -> Decorator:
    return click.option(
        "--population",
        "population",
        cls=RenamedOption,
        old_name="--policy",
        type=click.Choice(POPULATIONS),
        metavar="NAME",
        help="Failure policy and jobs: wasted (leaves out preempted and user-cancelled jobs) or papers "
        "(every outcome but completed is a failure). The suffix -started leaves out jobs that never "
        "started, -2min also those that ran for less than two minutes.  "
        f"[default: {default}]",
    )


population_option = _population_option("as configured, else wasted")
bench_population_option = _population_option("papers")
phase_option: Decorator = click.option(
    "--phase",
    type=click.Choice(PHASES),
    default=Phase.SUBMIT,
    show_default=True,
    help="Moment of the prediction.",
)


def _features_option(default: str | None, shown: str) -> Decorator:
    return click.option(
        "--features",
        "feature_set",
        type=click.Choice(("generic", "restricted", "swf")),
        default=default,
        help="generic: fields of most Slurm sites; restricted: no identity and no history, for new users; "
        f"swf: fields of the Standard Workload Format only.  [default: {shown}]",
    )


features_option = _features_option("generic", "generic")
bench_features_option = _features_option(None, "swf for an SWF file, else generic")
status_option: Decorator = click.option(
    "--status", metavar="HOW", help="Meaning of the status field of an SWF log; see `forewarn ingest --help`."
)
seed_option: Decorator = click.option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    default=0,
    show_default=True,
    metavar="N",
    help="Random seed.",
)


def search_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of commands that search for a model."""
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
                help="Model families: xgboost, lightgbm, catboost, forest (random forest), online (online "
                "regression on the features, no training run), or all (an ensemble of the best of each, with "
                "a weight of one third for online). Can be repeated.",
            ),
            click.option(
                "--trials",
                type=click.IntRange(1),
                default=20,
                show_default=True,
                metavar="N",
                help="Number of trials of the search, at least one for each family.",
            ),
            click.option(
                "--search",
                "method",
                type=click.Choice(("tpe", "random")),
                default="tpe",
                show_default=True,
                help="Sampler of hyperparameters: tree-structured Parzen estimator (tpe) or random.",
            ),
            click.option(
                "--imbalance",
                type=click.Choice(BALANCINGS),
                default="none",
                show_default=True,
                metavar="METHOD",
                help="Method for imbalanced classes: none, weights, oversample, smote or active; see "
                "`forewarn compare`.",
            ),
            click.option(
                "--threshold",
                default="f1",
                show_default=True,
                metavar="RULE",
                help="Rule for the alert threshold: f1, expected-f1, precision=0.8, recall=0.6, or cost=20 "
                "(node hours that a false alarm costs).",
            ),
            seed_option,
            click.option(
                "--deterministic",
                is_flag=True,
                help="Reproduce the same result for the same seed on this machine; slower.",
            ),
            click.option(
                "--ray-address",
                metavar="ADDRESS",
                help="Search on this Ray cluster, such as HOST:6379.  [default: local]",
            ),
        )
    ):
        command = option(command)
    return command


def chosen_families(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the requested families in their usual order."""
    return tuple(name for name in FAMILIES if name in names or "all" in names)


_RANKING = {"roc_auc": "ROC-AUC", "pr_auc": "PR-AUC", "brier": "Brier", "ece": "ECE"}
_MEASURES = {"accuracy": "accuracy", "precision": "precision", "recall": "recall", "f1": "F1"}


def print_evaluations(title: str, evaluations: Mapping[str, Mapping[str, Any]]) -> None:
    """Print the evaluations of models by name, with intervals, beside simple rules on the same jobs."""
    from forewarn.learn.report.wording import RULES

    first = next(iter(evaluations.values()))
    base_rate = first["ranking"]["base_rate"]
    jobs = f"{number(first['ranking']['n'])}, {percent_in_table(base_rate)} failed"
    print_facts(title, {"jobs": jobs})
    print_table(
        ["metric [95% interval]", *evaluations],
        [
            [label, *(_with_interval(name, evaluation) for evaluation in evaluations.values())]
            for name, label in _RANKING.items()
        ],
    )
    own = {
        f"{model}, threshold {measure(evaluation['threshold']['value'], 2)}": evaluation["at_threshold"]
        for model, evaluation in evaluations.items()
    }
    print_alerts(own, first["baselines"], base_rate)
    for model, evaluation in evaluations.items():
        if len(evaluations) > 1:
            echo(f"\n{model}")
        print_figures(evaluation, RULES)


def print_alerts(
    own: Mapping[str, Mapping[str, float]], rules: Mapping[str, Mapping[str, float]], base_rate: float
) -> None:
    """Print how good the alerts of models are, above those of the simple rules."""
    from forewarn.learn.report.wording import RULES

    echo()
    rows = {**own, **{label: rules[name] for name, label in RULES.items() if name in rules}}
    print_table(
        ["alerts", *_MEASURES.values()],
        [[label, *_cells(row, base_rate)] for label, row in rows.items()],
        right=_MEASURES.values(),
    )


def _cells(row: Mapping[str, float], base_rate: float) -> list[str | None]:
    """Format the measures of a row; without any alert there is no precision.

    >>> _cells({"accuracy": 0.75, "precision": 0.0, "recall": 0.0, "f1": 0.0}, 0.25)
    ['0.750', None, '0.000', '0.000']
    """
    no_alert = row["recall"] == 0 and math.isclose(row["accuracy"], 1 - base_rate)
    return [None if no_alert and name == "precision" else measure(row[name]) for name in _MEASURES]


def _with_interval(name: str, evaluation: Mapping[str, Any]) -> str | None:
    value, bounds = evaluation["ranking"][name], evaluation["intervals"].get(name)
    return None if value is None else f"{measure(value)}  {interval(bounds)}".rstrip()
