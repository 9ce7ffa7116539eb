"""`forewarn train`: a model from a cluster's history, with its report, in the registry."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from forewarn.serve.cli.common import configured, home_option, json_option
from forewarn.serve.cli.learning import (
    chosen_families,
    cluster_option,
    features_option,
    phase_option,
    policy_option,
    print_judged,
    search_options,
    status_option,
)
from forewarn.serve.cli.output import note, print_facts, print_json
from forewarn.serve.cli.progress import progress

if TYPE_CHECKING:
    from forewarn.learn.train import Trained
    from forewarn.learn.versions import Version


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
    cluster: str | None,
    phase: str,
    feature_set: str,
    policy: str | None,
    status: str | None,
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
    from forewarn.features.absence import absence_report
    from forewarn.learn.fitting import Settings
    from forewarn.learn.population import POPULATIONS
    from forewarn.learn.ray_address import greet
    from forewarn.learn.registry import Registry
    from forewarn.learn.table import read_table
    from forewarn.learn.thresholds import parsed
    from forewarn.learn.train import search_key, train
    from forewarn.serve.cli.history_of import learning_store, read_alike

    parsed(how["threshold"])  # what is wrong is said now, not after hours
    greet(how["ray_address"])
    config = configured(home=home)
    settings = Settings(feature_set=feature_set, families=chosen_families(families), **how)
    if source is None:
        read_alike(config, cluster)
    with learning_store(source, config, cluster, status=status) as (store, name):
        with progress(f"features at {phase}") as far:
            table = read_table(store, name, phase, POPULATIONS[policy or config.policy], far)
        absence = [finding.message for finding in absence_report(store, name)]
    models = config.home / "models"
    search = models / "searches" / search_key(table, settings)
    try:
        trained = train(
            table, settings, searches=search.parent, now=int(time.time()), absence=absence, watch=progress
        )
    except KeyboardInterrupt:
        if search.exists():
            note("the same command again goes on with this search")
        raise
    models.mkdir(parents=True, exist_ok=True)
    registry = Registry(config.home, config.tracking)
    with tempfile.TemporaryDirectory(dir=models, prefix="trained-") as scratch:
        bundle = Path(scratch) / "bundle"
        manifest = trained.save(bundle)
        with progress("registering"):
            version = registry.record(bundle)
    shutil.rmtree(search, ignore_errors=True)
    folder = registry.bundle(version) if version else models / "pending" / manifest.id
    if as_json:
        from forewarn.learn.report.words import verdict, warnings

        evaluation = trained.report["evaluation"]
        print_json(
            {
                "model": str(version.name) if version else None,
                "version": version.version if version else None,
                "aliases": list(version.aliases) if version else [],
                "bundle": str(folder),
                "report": str(folder / "report.html"),
                "metrics": dict(manifest.facts.metrics),
                "verdict": verdict(trained.report),
                "warnings": warnings(trained.report),
                "evaluation": {
                    k: evaluation[k]
                    for k in ("at_threshold", "baselines", "intervals", "by_decision", "hours", "causes")
                },
            }
        )
    else:
        _print(trained, version, folder)


def _print(trained: Trained, version: Version | None, folder: Path) -> None:
    from forewarn.learn.report.words import BAD, verdict, warnings

    print_judged("On later jobs, which it has not seen", {"this model": trained.report["evaluation"]})
    members = ", ".join(f"{weight:.0%} {recipe.family}" for weight, recipe in trained.recipes if weight > 0)
    print_facts(
        f"\n{verdict(trained.report)}",
        {
            "model": f"{version.name} version {version.version}, {', '.join(version.aliases)}"
            if version
            else "not registered yet: `forewarn models sync`",
            "made of": f"{members}; learnt from {trained.bundle.jobs:,} jobs",
            "search": _searched(trained.report["search"]),
            "report": str(folder / "report.html"),
        },
    )
    for warning in warnings(trained.report):
        if warning["level"] == BAD:
            note(warning["text"])
    if version and version.promoted_because:
        note(f"it serves now: {version.promoted_because}")
    if version and not trained.bundle.facts.may_serve and "champion" not in version.aliases:
        note(f"so it does not serve; if it should all the same: forewarn models promote {version.name}")


def _searched(search: dict[str, Any] | None) -> str | None:
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
