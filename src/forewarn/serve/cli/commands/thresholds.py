"""`forewarn thresholds`: list, set and reset the probability from which a job gets an alert."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from forewarn.formatting import count, measure, percent_in_table, rough_duration, timestamp
from forewarn.serve.cli.commands.common import home_option, json_option, opened
from forewarn.serve.cli.terminal.output import note, print_json, print_table, say

if TYPE_CHECKING:
    from forewarn.operate.threshold_effect import AlertFigures
    from forewarn.operate.thresholds import ThresholdChange, ThresholdSetting

_model = click.argument("model", metavar="MODEL")
_partition = click.option("-p", "--partition", metavar="NAME", help="Only for jobs of this partition.")
_reason: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "-r", "--reason", metavar="TEXT", help="Why, for the audit log."
)
_HEADINGS = ("model", "partition", "threshold", "own", "set by", "on", "reason")


@click.group("thresholds")
def command() -> None:
    """List, set and reset the probability of failure from which a job gets an alert.

    Training chooses a threshold for each model. An operator may set another one, for the model or for one of
    the cluster's partitions. It is in force at once, in a running service or collector within a second or so,
    and every change is a line in the audit log.

    \b
    Examples:
      forewarn thresholds list
      forewarn thresholds set alps.submit.generic 0.35 --reason "too many false alarms"
      forewarn thresholds set alps.submit.generic 0.2 -p gpu --preview
      forewarn thresholds reset alps.submit.generic -p gpu
    """


@command.command("list")
@click.option("-M", "--cluster", metavar="NAME", help="Models of this cluster.")
@home_option
@json_option
def list_(cluster: str | None, home: Path | None, as_json: bool) -> None:
    """List the threshold of each model that serves, and those set for its partitions."""
    from forewarn.operate.thresholds import list_thresholds

    with opened(home=home) as workspace:
        found = list_thresholds(workspace, cluster)
    if as_json:
        print_json([setting.to_json() for setting in found])
    elif found:
        print_table(
            _HEADINGS, [_row(setting) for setting in found], right=("threshold", "own"), drop=("reason",)
        )
    else:
        say("no model serves yet; run `forewarn train`")
    for setting in found:
        if setting.is_of_another_version:
            note(
                f"{_name(setting)}: set while version {setting.set_for_version} served, and version "
                f"{setting.version} serves now; `forewarn thresholds set … --preview` shows its effect"
            )


@command.command("set")
@_model
@click.argument("value", type=float, metavar="PROBABILITY")
@_partition
@_reason
@click.option("--preview", is_flag=True, help="Only show the effect on the last month's alerts.")
@home_option
@json_option
def set_(
    model: str,
    value: float,
    partition: str | None,
    reason: str | None,
    preview: bool,
    home: Path | None,
    as_json: bool,
) -> None:
    """Set the threshold of MODEL to a PROBABILITY from 0 (all jobs get an alert) to 1 (none does).

    Shows what it means for the last month: alerts a day, precision and recall before and after, by the
    assessments in the store.
    """
    from forewarn.operate.thresholds import local_operator, preview_threshold, set_threshold

    with opened(home=home) as workspace:
        if preview:
            change = preview_threshold(workspace, model, value, partition=partition)
        else:
            by = local_operator()
            change = set_threshold(workspace, model, value, by=by, partition=partition, reason=reason)
    _print_change(change, as_json=as_json, done=not preview)


@command.command()
@_model
@_partition
@_reason
@home_option
@json_option
def reset(model: str, partition: str | None, reason: str | None, home: Path | None, as_json: bool) -> None:
    """Remove a threshold that was set, so that the one before it is in force again."""
    from forewarn.operate.thresholds import local_operator, reset_threshold

    with opened(home=home) as workspace:
        by = local_operator()
        change = reset_threshold(workspace, model, by=by, partition=partition, reason=reason)
    _print_change(change, as_json=as_json, done=True)


@command.command()
@home_option
def repair(home: Path | None) -> None:
    """Write the file that assessments read again, from what was set, where it is damaged or differs."""
    from forewarn.operate.thresholds import mirror_thresholds

    with opened(home=home) as workspace:
        differed = mirror_thresholds(workspace)
    say("the thresholds in force are written again" if differed else "nothing to repair")


def _print_change(change: ThresholdChange, *, as_json: bool, done: bool) -> None:
    if as_json:
        print_json(change.to_json())
        return
    effect, where = change.effect, f" in partition {change.partition}" if change.partition else ""
    verb = "is" if done else "would be"
    say(
        f"{change.model}{where}: the threshold {verb} {measure(change.after)} "
        f"(before: {measure(change.before)})"
    )
    if not effect.jobs:
        say(
            "no assessment of the last month is stored that shows its effect; `forewarn collect` and "
            "`forewarn serve` store them"
        )
        return
    rows = [(name, *_figures(one)) for name, one in (("before", effect.before), ("after", effect.after))]
    headings = ("", "threshold", "alerts a day", "alerts", "right", "precision", "recall")
    print_table(headings, rows, right=headings[1:])
    say(
        f"last {rough_duration(effect.days * 86400)}: {count(effect.jobs, 'job')} assessed, "
        f"{effect.ended:,} ended, {effect.failed:,} of them failed"
    )


def _figures(figures: AlertFigures) -> tuple[str, ...]:
    a_day = figures.alerts_a_day
    return (
        measure(figures.threshold),
        "n/a" if a_day is None else f"{a_day:.1f}",
        f"{figures.alerts:,}",
        f"{figures.right:,}",
        percent_in_table(figures.precision),
        percent_in_table(figures.recall),
    )


def _row(setting: ThresholdSetting) -> tuple[str, ...]:
    is_set = setting.is_set
    return (
        str(setting.model),
        setting.partition or "all",
        measure(setting.value),
        f"{measure(setting.own)} ({setting.rule})",
        (setting.set_by or "n/a") if is_set else "",
        timestamp(setting.set_at, "UTC", name_zone=True) if is_set else "",
        setting.reason or "",
    )


def _name(setting: ThresholdSetting) -> str:
    return f"{setting.model}, partition {setting.partition}" if setting.partition else str(setting.model)
