"""Registration of a bundle as a version: upload to a run, check of the upload, then registration.

Every step may fail, or succeed while its answer is lost. The run and the version carry the bundle's id as a
tag, so that a repetition finds a version that exists already, and removes an incomplete run.
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
from forewarn.features.slurm_field_differences import describe_reading_change, reading_changed
from forewarn.learn.registry.manifest import MANIFEST, Manifest
from forewarn.learn.registry.serving import ModelName
from forewarn.learn.registry.tracking import Tracking, without_password
from forewarn.learn.registry.versions import (
    CHALLENGER,
    CHAMPION,
    Version,
    explain_promotion,
    former_champions,
    registered_version,
    remember_champions,
    run_filter,
    tags_of,
    versions,
    with_alias,
)

BUNDLE = "bundle"  # the folder among a run's artifacts
_LONGEST, _MOST = 6000, 100  # MLflow's limits: characters of a param's value, params of one call


def record_bundle(tracking: Tracking, folder: Path, manifest: Manifest, artifacts: Path) -> Version:
    """Register a bundle, or find its version if it is registered already.

    The first version of a model that may serve becomes champion. So does a version that beats a simple rule
    which serves in place of a model, and one that was trained after a change in how fields are read: the
    previous champion no longer predicts any job then.
    """
    if registered_version(tracking, manifest) is None:
        _register(tracking, _upload(tracking, folder, manifest, artifacts), manifest)
    name = ModelName.of(manifest.facts)
    existing = versions(tracking, name)
    version = next((version for version in existing if version.id == manifest.id), None)
    if version is None:
        raise RegistryError(
            f"{without_password(tracking.uri)}: {name} was registered and cannot be found there"
        )
    champion, challenger = with_alias(existing, CHAMPION), with_alias(existing, CHALLENGER)
    if champion is None and manifest.facts.may_serve:
        alias = CHAMPION
    elif champion and champion != version and (why := _replaces(version, champion, manifest)):
        if version.version < champion.version:
            return version  # the newer champion was promoted over this version
        former = former_champions(tracking, name)
        if former[-1:] != [champion.version]:
            remember_champions(tracking, name, [*former, champion.version])
        explain_promotion(tracking, version, why)
        version = replace(version, promoted_because=why)
        alias = CHAMPION
    elif champion != version and (challenger is None or challenger.version < version.version):
        alias = CHALLENGER
    else:
        return version
    tracking.set_registered_model_alias(name.registered, alias, str(version.version))
    return replace(version, aliases=(alias,))


def _replaces(new: Version, champion: Version, manifest: Manifest) -> str | None:
    """Return why a version replaces the champion automatically, or None if it does not."""
    if not manifest.facts.may_serve:
        return None
    # An imported bundle may be older than the champion: then its reading of fields is not the current one.
    if new.reading is not None and champion.created < new.created:
        changed = reading_changed(champion.reading, new.reading)
        if changed:
            return f"version {champion.version} no longer fits: {describe_reading_change(changed)}"
    if champion.rule and new.rule is None:
        return f"version {champion.version} is a simple rule that this model beats"
    return None


def _upload(tracking: Tracking, folder: Path, manifest: Manifest, artifacts: Path) -> str:
    """Upload a bundle to a new run, check that it is complete, and return the run's id."""
    experiment = _experiment(tracking, ModelName.of(manifest.facts), artifacts)
    for incomplete in tracking.search_runs([experiment], run_filter(manifest)):
        _discard(tracking, incomplete.info.run_id)
    run = str(tracking.create_run(experiment, tags=tags_of(manifest)).info.run_id)
    try:
        _describe(tracking, run, manifest)
        tracking.log_artifacts(run, str(folder), BUNDLE)
        sizes = {name: file.size for name, file in manifest.files.items()}
        sizes[MANIFEST] = (folder / MANIFEST).stat().st_size
        if dict(_artifact_sizes(tracking, run, BUNDLE)) != sizes:
            raise RegistryError(f"{without_password(tracking.uri)}: the upload to run {run} is incomplete")
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
            if registered_version(tracking, manifest) is None:
                _discard(tracking, run)
                if is_new and not versions(tracking, name):
                    tracking.delete_registered_model(name.registered)
        raise


def _experiment(tracking: Tracking, name: ModelName, artifacts: Path) -> str:
    experiment = tracking.get_experiment_by_name(name.registered)
    if experiment is None:
        # Without a server, MLflow would put artifacts into the current working directory.
        place = None if tracking.has_server else artifacts.absolute().as_uri()
        return str(tracking.create_experiment(name.registered, artifact_location=place))
    if experiment.lifecycle_stage == "deleted":
        tracking.restore_experiment(experiment.experiment_id)
    return str(experiment.experiment_id)


def _describe(tracking: Tracking, run: str, manifest: Manifest) -> None:
    """Log params and metrics, to compare runs in MLflow's own pages."""
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
    """Flatten nested settings into MLflow's params.

    >>> list(_flat({"trials": 20, "search": {"method": "tpe", "families": ["xgboost"]}}))
    [('trials', '20'), ('search.method', 'tpe'), ('search.families', '["xgboost"]')]
    """
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value if isinstance(value, str) else json.dumps(value)


def _key(name: str) -> str:
    """Replace characters that MLflow forbids in names.

    >>> _key("precision=0.8")
    'precision_0.8'
    """
    return re.sub(r"[^\w./ -]", "_", name)[:250]


def _artifact_sizes(tracking: Tracking, run: str, folder: str) -> Iterator[tuple[str, int]]:
    for entry in tracking.list_artifacts(run, folder):
        if entry.is_dir:
            yield from _artifact_sizes(tracking, run, entry.path)
        else:
            yield entry.path.removeprefix(f"{BUNDLE}/"), entry.file_size


def _discard(tracking: Tracking, run: str) -> None:
    tracking.set_terminated(run, "FAILED")
    tracking.delete_run(run)
