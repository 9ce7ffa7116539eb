"""Train a model on a history and register it with its report."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forewarn.errors import UsageError
from forewarn.job.phase import Phase
from forewarn.learn.extra import check_train_extra
from forewarn.learn.fitting.fit_settings import ALL_FAMILIES, FitSettings
from forewarn.learn.fitting.thresholds import parse_rule
from forewarn.learn.fitting.train import TrainedModel, search_key
from forewarn.learn.fitting.train import train as train_on
from forewarn.learn.registry.serving import ModelName
from forewarn.learn.report.wording import headline, warnings
from forewarn.learn.search.ray_address import check_ray_address
from forewarn.operate.history import open_history, population_of, update_field_treatments
from forewarn.operate.model import Model
from forewarn.operate.workspace import Workspace
from forewarn.progress import Note, ShowProgress, log_note, no_progress


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelWeight:
    """A member of an ensemble and its weight."""

    family: str
    weight: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingResult:
    """The result of a training: the model, its figures on later jobs, and its files.

    If the registry could not be reached, `version` is None and `aliases` is empty: the bundle is kept, and
    `Site.sync_models` or the next training registers it.
    """

    name: ModelName
    version: int | None
    aliases: tuple[str, ...]  # champion serves, challenger waits to be promoted
    model: Model
    metrics: Mapping[str, float]
    evaluation: Mapping[str, Any]  # every figure on the test block, as the report has it
    verdict: str | None
    warnings: tuple[Mapping[str, str], ...]  # level and text
    members: tuple[ModelWeight, ...]
    search: Mapping[str, Any] | None  # its trials; None without a search
    jobs: int  # trained on
    may_serve: bool  # whether its report finds it fit to serve
    promoted_because: str | None  # why it replaced the champion automatically
    bundle: Path
    report: Path  # an HTML page; the same as JSON is beside it


def search_settings(families: Sequence[str] | None = None, **settings: Any) -> FitSettings:
    """Check the settings of a training before hours are spent on it; `families` None: all of them."""
    selected = tuple(name for name in ALL_FAMILIES if families is None or name in families)
    if families is not None and (unknown := set(families).difference(ALL_FAMILIES)):
        raise UsageError(f"--family: no family {sorted(unknown)[0]!r}; choose from {', '.join(ALL_FAMILIES)}")
    try:
        fit_settings = FitSettings(families=selected, **settings)
    except TypeError as error:
        raise UsageError(f"no such setting: {str(error).rpartition(' ')[2]}") from None
    parse_rule(fit_settings.threshold)
    check_train_extra()
    check_ray_address(fit_settings.ray_address)
    return fit_settings


def train(
    workspace: Workspace,
    cluster: str | None = None,
    *,
    source: str | None = None,
    phase: str = Phase.SUBMIT,
    population: str | None = None,
    status: str | None = None,
    watch: ShowProgress = no_progress,
    note: Note = log_note,
    **settings: Any,
) -> TrainingResult:
    """Search, calibrate, evaluate and register a model.

    An interrupted search continues when the same training is started again.

    Parameters
    ----------
    cluster, source, status
        The history to train on, as in `operate.history.open_history`.
    population
        What counts as failure, and which jobs take part (`learn.data.population.POPULATIONS`).
    settings
        Those of `learn.fitting.fit_settings.FitSettings`: families, trials, threshold, seed, …
    """
    fit_settings = search_settings(**settings)
    chosen = population_of(population or workspace.config.policy)
    if source is None:
        update_field_treatments(workspace, cluster, note)
    with open_history(workspace, source, cluster, status=status, watch=watch, note=note) as history:
        table = history.table(phase, chosen, watch)
    absence = [finding.message for finding in table.absences]
    searches = workspace.config.home / "models" / "searches"
    search = searches / search_key(table, fit_settings)
    try:
        trained = train_on(
            table, fit_settings, searches=searches, at=workspace.now(), absence=absence, watch=watch
        )
    except KeyboardInterrupt:
        if search.exists():
            note("run the same command again to continue this search")
        raise
    result = _register(workspace, trained, watch)
    shutil.rmtree(search, ignore_errors=True)
    return result


def _register(workspace: Workspace, trained: TrainedModel, watch: ShowProgress) -> TrainingResult:
    models = workspace.config.home / "models"
    models.mkdir(parents=True, exist_ok=True)
    registry = workspace.registry()
    with tempfile.TemporaryDirectory(dir=models, prefix="trained-") as scratch:
        bundle = Path(scratch) / "bundle"
        manifest = trained.save(bundle)
        with watch("registering"):
            version = registry.record(bundle)
    folder = registry.bundle(version) if version else models / "pending" / manifest.id
    name = ModelName.of(manifest.facts)
    number = version.version if version else None
    return TrainingResult(
        name=name,
        version=number,
        aliases=version.aliases if version else (),
        model=Model(folder, name, number),
        metrics=dict(manifest.facts.metrics),
        evaluation=trained.report["evaluation"],
        verdict=headline(trained.report),
        warnings=tuple(warnings(trained.report)),
        members=tuple(
            ModelWeight(family=recipe.family, weight=weight)
            for weight, recipe in trained.recipes
            if weight > 0
        ),
        search=trained.report["search"],
        jobs=trained.bundle.jobs,
        may_serve=trained.bundle.facts.may_serve,
        promoted_because=version.promoted_because if version else None,
        bundle=folder,
        report=folder / "report.html",
    )
