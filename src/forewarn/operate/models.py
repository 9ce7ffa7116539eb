"""List, show, promote, export and import registered models.

`model.py` is one of them, to predict with.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forewarn.errors import UsageError
from forewarn.learn.evaluation.rule_labels import rule_label
from forewarn.learn.registry.manifest import MODEL, Manifest
from forewarn.learn.registry.registry import Registry, SyncResult
from forewarn.learn.registry.serving import ModelName
from forewarn.learn.registry.versions import CHALLENGER, CHAMPION, Version
from forewarn.operate.access.home_actions import audited_action
from forewarn.operate.model import Model
from forewarn.operate.workspace import Workspace
from forewarn.store.opening import open_people_store


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelList:
    """All versions, the newest first, and the differences between the registry and this home."""

    versions: tuple[Version, ...]
    waiting: tuple[Path, ...]  # bundles that are not registered yet
    behind: Mapping[ModelName, int]  # the version that serves here, of models whose champion is another one


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDetails:
    """One version with the contents of its bundle."""

    version: Version
    bundle: Path
    manifest: Manifest
    inside: Mapping[str, Any]  # model.json: columns, members, calibration, thresholds
    former_champions: tuple[int, ...]  # the latest last


@dataclass(frozen=True, slots=True, kw_only=True)
class Promotion:
    """A version that has become the champion."""

    version: Version
    may_serve: bool  # whether its report finds it fit to serve; if not, each assessment says so


def list_models(workspace: Workspace) -> ModelList:
    """List the registered models and their versions."""
    registry = workspace.registry()
    versions = tuple(registry.versions())
    champions = (version for version in versions if CHAMPION in version.aliases)
    pairs = ((champion, registry.serving.served_model(champion.name)) for champion in champions)
    behind = {
        champion.name: served.version for champion, served in pairs if served and served.id != champion.id
    }
    return ModelList(versions=versions, waiting=tuple(registry.waiting()), behind=behind)


def load_model(workspace: Workspace, name: str, which: int | str = CHAMPION) -> Model:
    """Return a version to predict with; it is loaded at its first use."""
    registry, version = _find(workspace, name, which)
    return Model(registry.bundle(version), version.name, version.version)


def show_model(workspace: Workspace, name: str, which: int | str = CHAMPION) -> ModelDetails:
    """Read a version's training data, figures and bundle contents."""
    registry, version = _find(workspace, name, which)
    folder = registry.bundle(version)
    return ModelDetails(
        version=version,
        bundle=folder,
        manifest=Manifest.verify(folder),
        inside=json.loads((folder / MODEL).read_text(encoding="utf-8")),
        former_champions=tuple(registry.former_champions(version.name)),
    )


def promote(workspace: Workspace, name: str, which: int | str = CHALLENGER) -> Promotion:
    """Make a version the champion, which serves from now on."""
    registry, wanted = workspace.registry(), number_or_alias(which)
    with _audited(workspace, registry, "model.promote", name) as details:
        details["wanted"] = wanted
        version = registry.promote(ModelName.parse(name), wanted)
        details["version"] = version.version
    may_serve = Manifest.read(registry.bundle(version)).facts.may_serve
    return Promotion(version=version, may_serve=may_serve)


def rollback(workspace: Workspace, name: str) -> Version:
    """Make the previous champion the champion again; repeat it to go back further."""
    registry = workspace.registry()
    with _audited(workspace, registry, "model.rollback", name) as details:
        version = registry.rollback(ModelName.parse(name))
        details["version"] = version.version
    return version


def export_model(workspace: Workspace, name: str, output: Path, which: int | str = CHAMPION) -> Version:
    """Write a version's bundle as a folder, or as one file if the name ends in .tar.gz."""
    registry, version = _find(workspace, name, which)
    registry.export(version, output)
    return version


def import_model(workspace: Workspace, path: Path) -> Version | None:
    """Register an exported bundle; return None if the registry cannot be reached."""
    return workspace.registry().import_(path)


def sync_models(workspace: Workspace) -> SyncResult:
    """Register waiting bundles, and let the registry's champions serve in this home."""
    return workspace.registry().sync()


def version_as_json(version: Version) -> dict[str, Any]:
    """Return the JSON form of a version."""
    name = version.name
    return {
        "model": str(name),
        "cluster": name.cluster,
        "phase": name.phase,
        "features": name.feature_set,
        "version": version.version,
        "aliases": list(version.aliases),
        "created": version.created,
        "population": version.population,
        "metrics": dict(version.metrics),
        "rule": version.rule and rule_label(version.rule),
        "promoted_because": version.promoted_because,
        "id": version.id,
    }


def number_or_alias(which: int | str) -> int | str:
    """Parse a version number or an alias.

    >>> number_or_alias("3"), number_or_alias("champion")
    (3, 'champion')
    """
    if isinstance(which, int) or which in (CHAMPION, CHALLENGER):
        return which
    if which.isdecimal():
        return int(which)
    raise UsageError(f"not a version: {which!r}. Give a number, champion or challenger")


@contextmanager
def _audited(workspace: Workspace, registry: Registry, action: str, name: str) -> Iterator[dict[str, Any]]:
    registry.require_permission()  # who may only read the home cannot write a line either
    with open_people_store(workspace.config) as people, audited_action(people, action, name) as details:
        yield details


def _find(workspace: Workspace, name: str, which: int | str) -> tuple[Registry, Version]:
    registry = workspace.registry()
    return registry, registry.version(ModelName.parse(name), number_or_alias(which))
