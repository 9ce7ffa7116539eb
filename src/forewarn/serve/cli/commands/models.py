"""`forewarn models`: the registered models, which of them serves, and bundles in and out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from forewarn.errors import RegistryError
from forewarn.serve.cli.commands.common import home_option, json_option, opened
from forewarn.serve.cli.terminal.output import note, print_facts, print_json, print_table, say

if TYPE_CHECKING:
    from forewarn.learn.registry.versions import Version
    from forewarn.operate.models import ModelDetails, ModelList

FIGURES = {"roc_auc": "ROC-AUC", "pr_auc": "PR-AUC", "f1": "F1", "ece": "ECE"}  # in the list of models
_name = click.argument("model", metavar="MODEL")


def _which(default: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.argument("which", metavar="[VERSION]", default=default)


@click.group("models")
def command() -> None:
    """List, promote, carry and roll back trained models.

    There is one model for each cluster, phase and feature set, named CLUSTER.PHASE.FEATURES. Of its versions
    the champion serves; what was trained after it is the challenger until it is promoted.

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
    """List the models and their versions, the newest first."""
    from forewarn.operate.models import list_models, version_as_json

    with opened(home=home) as workspace:
        found = list_models(workspace)
    if as_json:
        print_json([version_as_json(version) for version in found.versions])
    elif found.versions:
        _print_list(found.versions)
    else:
        say("no models yet: `forewarn train` makes one")
    _say_what_is_behind(found)


def _print_list(versions: Sequence[Version]) -> None:
    from forewarn.learn.evaluation.baselines import label

    headings = ("model", "version", "alias", "created", "population", *FIGURES.values(), "id")
    rows = [
        (
            str(v.name),
            str(v.version),
            " ".join(v.aliases),
            _moment(v.created),
            v.population,
            *(_figure(v.metrics.get(figure)) for figure in FIGURES),
            v.id[:12],
        )
        for v in versions
    ]
    drop = ("id", "population", "created")
    print_table(headings, rows, right=("version", *FIGURES.values()), shorten=("model",), drop=drop)
    for version in versions:
        if version.rule:
            say(f"{version.name} version {version.version} is a simple {label(version.rule)}")


@command.command()
@_name
@_which("champion")
@home_option
@json_option
def show(model: str, which: str, home: Path | None, as_json: bool) -> None:
    """Show one version: what it learnt from, how good it was, what is in its bundle.

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
    from forewarn.learn.evaluation.baselines import label

    version, manifest, inside = found.version, found.manifest, found.inside
    facts = manifest.facts
    members = [(member["recipe"], member["weight"]) for member in inside["members"]]
    print_facts(
        f"{version.name} version {version.version}",
        {
            "alias": " ".join(version.aliases) or None,
            "promoted because": version.promoted_because,
            "created": f"{_moment(facts.created)} by Forewarn {manifest.forewarn}, seed {facts.seed}",
            "learnt from": f"{inside['jobs']:,} jobs, {inside['base_rate']:.1%} of them failures "
            f"(population {facts.population})",
            "data": facts.data,
            "rule": version.rule and f"{label(version.rule)} (no model beat it)",
            "members": ", ".join(
                f"{recipe['family']} {weight:.2f} ({len(recipe['features'])} columns)"
                for recipe, weight in members
            ),
            "thresholds": ", ".join(f"{t['rule']}: {t['value']:.3f}" for t in inside["thresholds"]),
            "figures": ", ".join(f"{name} {_figure(value)}" for name, value in facts.metrics.items()) or None,
            "id": manifest.id,
            "files": f"{len(manifest.files)}, {manifest.size / 1e6:.1f} MB, every hash verified",
            "bundle": str(found.bundle),
            "run": version.run,
            "former champions": ", ".join(map(str, reversed(found.former_champions))) or None,
        },
    )


@command.command()
@_name
@_which("challenger")
@home_option
def promote(model: str, which: str, home: Path | None) -> None:
    """Make a version the champion: it serves from now on.

    VERSION is a number or an alias, by default `challenger`.
    """
    from forewarn.operate import models

    with opened(home=home) as workspace:
        promoted = models.promote(workspace, model, which)
    say(f"{promoted.version.name}: version {promoted.version.version} is the champion")
    if not promoted.may_serve:
        note("its report found it unfit to serve: each assessment by it will say so")


@command.command()
@_name
@home_option
def rollback(model: str, home: Path | None) -> None:
    """Make the champion before this one the champion again; repeat it to go back further."""
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
    help="A folder to be made, or one file: a name that ends in .tar.gz.",
)
@home_option
def export(model: str, which: str, output: Path, home: Path | None) -> None:
    """Write a version's bundle as a folder or one file, to keep or to carry elsewhere.

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
    """Register a bundle that `export` wrote, after every file in it has been verified."""
    from forewarn.operate.models import import_model

    with opened(home=home) as workspace:
        version = import_model(workspace, path)
    if version:
        say(f"{version.name}: version {version.version} {' '.join(version.aliases)}".rstrip())


@command.command()
@home_option
@json_option
def sync(home: Path | None, as_json: bool) -> None:
    """Register what was trained while the registry could not be reached, and follow its champions."""
    from forewarn.operate.models import sync_models, version_as_json

    with opened(home=home) as workspace:
        done = sync_models(workspace)
    if as_json:
        print_json(
            {
                "registered": [version_as_json(version) for version in done.logged],
                "waiting": {str(folder): why for folder, why in done.waiting.items()},
                "served": [version_as_json(version) for version in done.served],
            }
        )
    for version in done.logged:
        say(f"{version.name}: registered version {version.version} {' '.join(version.aliases)}".rstrip())
    for version in done.served:
        say(f"{version.name}: version {version.version} serves here now")
    if done.waiting:  # an error, so that whoever calls it every hour hears of it
        reasons = "\n".join(dict.fromkeys(done.waiting.values()))
        raise RegistryError(f"{reasons}\nStill waiting: {', '.join(map(str, done.waiting))}")
    if not (done.logged or done.served):
        say("nothing to do")


def _say_what_is_behind(found: ModelList) -> None:
    """What differs between the registry and this home."""
    if found.waiting:
        note(f"{len(found.waiting)} not registered yet: `forewarn models sync`")
    for name, served in found.behind.items():
        note(f"{name}: version {served} still serves here: `forewarn models sync`")


def _moment(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _figure(value: float | None) -> str | None:
    """
    >>> _figure(0.8125), _figure(1006)
    ('0.812', '1,006')
    """
    if value is None:
        return None
    return f"{value:,.0f}" if value > 1 and value == int(value) else f"{value:.3f}"
