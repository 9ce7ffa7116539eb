"""`forewarn models`: list, promote, export and import registered models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from forewarn.errors import RegistryError
from forewarn.formatting import byte_size, count, measure, percent, percent_in_table, timestamp
from forewarn.serve.cli.commands.common import home_option, json_option, opened
from forewarn.serve.cli.terminal.output import note, print_facts, print_json, print_table, say

if TYPE_CHECKING:
    from forewarn.learn.registry.versions import Version
    from forewarn.operate.models import ModelDetails, ModelList

METRICS = {"roc_auc": "ROC-AUC", "pr_auc": "PR-AUC", "f1": "F1", "ece": "ECE"}  # shown in the list
_OTHER_METRICS = {"brier": "Brier score", "log_loss": "log loss"}
_name = click.argument("model", metavar="MODEL")


def _which(default: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.argument("which", metavar="[VERSION]", default=default)


@click.group("models")
def command() -> None:
    """List, promote, export and roll back trained models.

    There is one model for each cluster, phase and feature set, named CLUSTER.PHASE.FEATURES. Its version
    with the alias champion serves; a version trained later is the challenger until it is promoted.

    \b
    Examples:
      forewarn models list
      forewarn models show alps.submit.generic challenger
      forewarn models promote alps.submit.generic
      forewarn models rollback alps.submit.generic
      forewarn models export alps.submit.generic -o model.tar.gz
    """


@command.command("list")
@home_option
@json_option
def list_(home: Path | None, as_json: bool) -> None:
    """List the models and their versions, newest first."""
    from forewarn.operate.models import list_models, version_as_json

    with opened(home=home) as workspace:
        found = list_models(workspace)
    if as_json:
        print_json([version_as_json(version) for version in found.versions])
    elif found.versions:
        _print_list(found.versions)
    else:
        say("no models yet; run `forewarn train`")
    _note_unsynchronised(found)


def _print_list(versions: Sequence[Version]) -> None:
    from forewarn.learn.evaluation.rule_labels import rule_label

    headings = ("model", "version", "alias", "created", "population", *METRICS.values(), "id")
    rows = [
        (
            str(v.name),
            str(v.version),
            " ".join(v.aliases),
            timestamp(v.created, "UTC", name_zone=True),
            v.population,
            *(measure(v.metrics.get(metric)) for metric in METRICS),
            v.id[:12],
        )
        for v in versions
    ]
    drop = ("id", "population", "created")
    print_table(headings, rows, right=("version", *METRICS.values()), shorten=("model",), drop=drop)
    for version in versions:
        if version.rule:
            say(f"{version.name} version {version.version} is a simple {rule_label(version.rule)}")


@command.command()
@_name
@_which("champion")
@home_option
@json_option
def show(model: str, which: str, home: Path | None, as_json: bool) -> None:
    """Show one version: its training data, evaluation and bundle.

    VERSION is a number or an alias, by default `champion`.
    """
    from forewarn.operate.models import show_model, version_as_json

    with opened(home=home) as workspace:
        found = show_model(workspace, model, which)
    if not as_json:
        _print_details(found)
        return
    about = {
        "bundle": str(found.bundle),
        "former_champions": list(found.former_champions),
        "run": found.version.run,
        "manifest": found.manifest.to_json(),
        "model": found.inside,
    }
    print_json(version_as_json(found.version) | about)


def _print_details(found: ModelDetails) -> None:
    from forewarn.learn.evaluation.rule_labels import rule_label

    version, manifest, inside = found.version, found.manifest, found.inside
    facts = manifest.facts
    members = [(member["recipe"], member["weight"]) for member in inside["members"]]
    print_facts(
        f"{version.name} version {version.version}",
        {
            "alias": " ".join(version.aliases) or None,
            "promoted because": version.promoted_because,
            "created": f"{timestamp(facts.created, 'UTC', name_zone=True)} by Forewarn {manifest.forewarn}, "
            f"seed {facts.seed}",
            "trained on": f"{count(inside['jobs'], 'job')}, {percent_in_table(inside['base_rate'])} failed "
            f"(population {facts.population})",
            "data hash": facts.data,
            "rule": version.rule and f"{rule_label(version.rule)} (no model beats it)",
            "members": ", ".join(
                f"{percent(weight)} {recipe['family']} ({count(len(recipe['features']), 'feature')})"
                for recipe, weight in members
            ),
            "thresholds": ", ".join(f"{t['rule']}: {measure(t['value'])}" for t in inside["thresholds"]),
            "metrics": _metrics(facts.metrics),
            "id": manifest.id,
            "files": f"{len(manifest.files)}, {byte_size(manifest.size)}, all hashes verified",
            "bundle": str(found.bundle),
            "MLflow run": version.run,
            "former champions": ", ".join(map(str, reversed(found.former_champions))) or None,
        },
    )


@command.command()
@_name
@_which("challenger")
@home_option
def promote(model: str, which: str, home: Path | None) -> None:
    """Make a version the champion, which serves from now on.

    VERSION is a number or an alias, by default `challenger`.
    """
    from forewarn.operate import models

    with opened(home=home) as workspace:
        promoted = models.promote(workspace, model, which)
    say(f"{promoted.version.name}: version {promoted.version.version} is the champion")
    if not promoted.may_serve:
        note("its report advises against serving it: each assessment will repeat that")


@command.command()
@_name
@home_option
def rollback(model: str, home: Path | None) -> None:
    """Make the previous champion the champion again; repeat to go back further."""
    from forewarn.operate import models

    with opened(home=home) as workspace:
        version = models.rollback(workspace, model)
    say(f"{version.name}: version {version.version} is the champion again")


@command.command()
@_name
@_which("champion")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    metavar="PATH",
    help="A new folder, or a file whose name ends in .tar.gz.",
)
@home_option
def export(model: str, which: str, output: Path, home: Path | None) -> None:
    """Write a version's bundle to a folder or a file, for a backup or another home.

    VERSION is a number or an alias, by default `champion`.
    """
    from forewarn.operate.models import export_model

    with opened(home=home) as workspace:
        version = export_model(workspace, model, output, which)
    say(f"wrote {version.name} version {version.version} to {output}")


@command.command("import")
@click.argument("path", type=click.Path(path_type=Path), metavar="PATH")
@home_option
def import_(path: Path, home: Path | None) -> None:
    """Register an exported bundle after verifying the hash of each file."""
    from forewarn.operate.models import import_model

    with opened(home=home) as workspace:
        version = import_model(workspace, path)
    if version:
        say(f"{version.name}: version {version.version} {' '.join(version.aliases)}".rstrip())


@command.command()
@home_option
@json_option
def sync(home: Path | None, as_json: bool) -> None:
    """Register models trained while the registry was unreachable, and update the champions."""
    from forewarn.operate.models import sync_models, version_as_json

    with opened(home=home) as workspace:
        result = sync_models(workspace)
    if as_json:
        print_json(
            {
                "registered": [version_as_json(version) for version in result.logged],
                "waiting": {str(folder): why for folder, why in result.waiting.items()},
                "served": [version_as_json(version) for version in result.served],
            }
        )
    for version in result.logged:
        say(f"{version.name}: registered version {version.version} {' '.join(version.aliases)}".rstrip())
    for version in result.served:
        say(f"{version.name}: version {version.version} serves now")
    if result.waiting:  # an error, so that a cron job reports it
        reasons = "\n".join(dict.fromkeys(result.waiting.values()))
        raise RegistryError(f"{reasons}\nNot registered yet: {', '.join(map(str, result.waiting))}")
    if not (result.logged or result.served):
        say("nothing to do")


def _note_unsynchronised(found: ModelList) -> None:
    """Print how this home differs from the registry."""
    if found.waiting:
        note(f"{count(len(found.waiting), 'model')} not registered yet; run `forewarn models sync`")
    for name, served in found.behind.items():
        note(f"{name}: version {served} still serves in this home; run `forewarn models sync`")


def _metrics(metrics: Mapping[str, float]) -> str | None:
    """Write the metrics of a version on one line.

    >>> _metrics({"n": 3451, "base_rate": 0.1376, "roc_auc": 0.7597, "log_loss": 0.3244, "recall": 0.5})
    '3,451 jobs, failure rate 13.8%, ROC-AUC 0.760, log loss 0.324, recall 0.500'
    """
    names = METRICS | _OTHER_METRICS
    parts = []
    for metric, value in metrics.items():
        if metric == "n":
            parts.append(count(value, "job"))
        elif metric == "base_rate":
            parts.append(f"failure rate {percent_in_table(value)}")
        else:
            parts.append(f"{names.get(metric, metric.replace('_', ' '))} {measure(value)}")
    return ", ".join(parts) or None
