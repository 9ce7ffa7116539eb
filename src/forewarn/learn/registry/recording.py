"""How a bundle becomes a version: uploaded to a run, looked at there, and only then registered.

Every step may fail, or succeed with its answer lost on the way. The bundle's id stands on the run and on
the version, so that doing it again finds what is there already, and sweeps away what is half.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from forewarn.errors import RegistryError
from forewarn.features.slurm_field_differences import reading_changed, reading_in_words
from forewarn.learn.registry.manifest import MANIFEST, Manifest
from forewarn.learn.registry.serving import ModelName
from forewarn.learn.registry.tracking import Tracking, shown
from forewarn.learn.registry.versions import (
    CHALLENGER,
    CHAMPION,
    Version,
    aliased,
    explain_promotion,
    former_champions,
    registered,
    remember_champions,
    tagged,
    tags_of,
    versions,
)

BUNDLE = "bundle"  # the folder among a run's artifacts
_LONGEST, _MOST = 6000, 100  # MLflow's limits: characters of a param's value, params of one call


def recorded(tracking: Tracking, folder: Path, manifest: Manifest, artifacts: Path) -> Version:
    """The version of a bundle, made now or found.

    The first of a model that may serve is its champion, and so is the first that beats a simple rule which
    serves in a model's place, or that learnt after a change in how fields are read: the champion from before
    passes every job on.
    """
    if registered(tracking, manifest) is None:
        _register(tracking, _upload(tracking, folder, manifest, artifacts), manifest)
    name = ModelName.of(manifest.facts)
    known = versions(tracking, name)
    found = next((version for version in known if version.id == manifest.id), None)
    if found is None:
        raise RegistryError(f"{shown(tracking.uri)}: {name} was registered and cannot be found there")
    champion, challenger = aliased(known, CHAMPION), aliased(known, CHALLENGER)
    if champion is None and manifest.facts.may_serve:
        alias = CHAMPION
    elif champion and champion != found and (why := _replaces(found, champion, manifest)):
        if found.version < champion.version:
            return found  # the champion serves since this model was passed over
        former = former_champions(tracking, name)
        if former[-1:] != [champion.version]:
            remember_champions(tracking, name, [*former, champion.version])
        explain_promotion(tracking, found, why)
        found = replace(found, promoted_because=why)
        alias = CHAMPION
    elif champion != found and (challenger is None or challenger.version < found.version):
        alias = CHALLENGER
    else:
        return found
    tracking.set_registered_model_alias(name.registered, alias, str(found.version))
    return replace(found, aliases=(alias,))


def _replaces(new: Version, champion: Version, manifest: Manifest) -> str | None:
    """Why a version takes the champion's place by itself; None: it does not."""
    if not manifest.facts.may_serve:
        return None
    # An imported bundle may be older than the champion: then it is not how fields are read now.
    if new.reading is not None and champion.created < new.created:
        changed = reading_changed(champion.reading, new.reading)
        if changed:
            return f"version {champion.version} does not fit any more: {reading_in_words(changed)}"
    if champion.rule and new.rule is None:
        return f"version {champion.version} is a simple rule that this model beats"
    return None


def _upload(tracking: Tracking, folder: Path, manifest: Manifest, artifacts: Path) -> str:
    """The run that holds the bundle, whole."""
    experiment = _experiment(tracking, ModelName.of(manifest.facts), artifacts)
    for left in tracking.search_runs([experiment], tagged(manifest)):
        _discard(tracking, left.info.run_id)
    run = str(tracking.create_run(experiment, tags=tags_of(manifest)).info.run_id)
    try:
        _describe(tracking, run, manifest)
        tracking.log_artifacts(run, str(folder), BUNDLE)
        sizes = {name: file.size for name, file in manifest.files.items()}
        sizes[MANIFEST] = (folder / MANIFEST).stat().st_size
        if dict(_arrived(tracking, run, BUNDLE)) != sizes:
            raise RegistryError(f"{shown(tracking.uri)}: the bundle did not arrive whole in run {run}")
        tracking.set_terminated(run)
    except RegistryError:
        with suppress(RegistryError):
            _discard(tracking, run)
        raise
    return run


def _register(tracking: Tracking, run: str, manifest: Manifest) -> None:
    name = ModelName.of(manifest.facts)
    is_new = not tracking.search_registered_models(f"name='{name.registered}'")
    try:
        if is_new:
            tracking.create_registered_model(name.registered)
        tracking.create_model_version(
            name.registered, f"runs:/{run}/{BUNDLE}", run_id=run, tags=tags_of(manifest)
        )
    except RegistryError:
        with suppress(RegistryError):
            if registered(tracking, manifest) is None:
                _discard(tracking, run)
                if is_new and not versions(tracking, name):
                    tracking.delete_registered_model(name.registered)
        raise


def _experiment(tracking: Tracking, name: ModelName, artifacts: Path) -> str:
    found = tracking.get_experiment_by_name(name.registered)
    if found is None:
        # Without a server, MLflow would put artifacts into the folder one happens to stand in.
        place = None if tracking.has_server else artifacts.absolute().as_uri()
        return str(tracking.create_experiment(name.registered, artifact_location=place))
    if found.lifecycle_stage == "deleted":
        tracking.restore_experiment(found.experiment_id)
    return str(found.experiment_id)


def _describe(tracking: Tracking, run: str, manifest: Manifest) -> None:
    """Params and figures, to compare runs by in MLflow's own pages."""
    from mlflow.entities import Metric, Param

    facts = manifest.facts
    when = facts.created * 1000
    metrics = [Metric(_key(name), value, when, 0) for name, value in facts.metrics.items()]
    about = {"seed": facts.seed, "data": facts.data, "forewarn": manifest.forewarn}
    params = [Param(_key(name), value[:_LONGEST]) for name, value in _flat({**about, **facts.settings})]
    tracking.log_batch(run, metrics=metrics)
    for begin in range(0, len(params), _MOST):
        tracking.log_batch(run, params=params[begin : begin + _MOST])


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Settings as MLflow has them.

    >>> list(_flat({"trials": 20, "search": {"method": "tpe", "families": ["xgboost"]}}))
    [('trials', '20'), ('search.method', 'tpe'), ('search.families', '["xgboost"]')]
    """
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value if isinstance(value, str) else json.dumps(value)


def _key(name: str) -> str:
    """
    >>> _key("precision=0.8")
    'precision_0.8'
    """
    return re.sub(r"[^\w./ -]", "_", name)[:250]


def _arrived(tracking: Tracking, run: str, folder: str) -> Iterator[tuple[str, int]]:
    for entry in tracking.list_artifacts(run, folder):
        if entry.is_dir:
            yield from _arrived(tracking, run, entry.path)
        else:
            yield entry.path.removeprefix(f"{BUNDLE}/"), entry.file_size


def _discard(tracking: Tracking, run: str) -> None:
    tracking.set_terminated(run, "FAILED")
    tracking.delete_run(run)
