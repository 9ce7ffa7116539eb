"""The versions of models in MLflow's registry, and their tags."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from forewarn.learn.registry.manifest import Manifest
from forewarn.learn.registry.serving import PREFIX, ModelName
from forewarn.learn.registry.tracking import Tracking

CHAMPION, CHALLENGER = "champion", "challenger"
_ID, _CREATED, _POPULATION, _METRICS, _RULE, _READING = (
    f"{PREFIX}.{tag}" for tag in ("id", "created", "population", "metrics", "rule", "reading")
)
_PROMOTED = f"{PREFIX}.promoted_because"  # tag of a version that replaced the champion automatically
_FORMER = f"{PREFIX}.former_champions"  # tag of a model: version numbers as JSON, the latest last
_REMEMBERED = 1000  # former champions


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a model in the registry."""

    name: ModelName
    version: int
    id: str  # of the bundle
    run: str  # of MLflow, which has the bundle as artifact
    aliases: tuple[str, ...]
    created: int
    population: str
    metrics: Mapping[str, float]
    rule: str | None = None  # the simple rule in the bundle, if no model was better
    reading: Mapping[str, str] | None = None  # how fields were read: see `Facts`
    promoted_because: str | None = None  # why it replaced the champion automatically


def tags_of(manifest: Manifest) -> dict[str, str]:
    """Return the tags of a bundle's run and version, so that a list of models does not need the bundles."""
    facts = manifest.facts
    rule = facts.settings.get("rule")
    reading = {} if facts.reading is None else {_READING: json.dumps(dict(facts.reading))}
    return (
        ({_RULE: str(rule)} if rule else {})
        | reading
        | {
            _ID: manifest.id,
            _CREATED: str(facts.created),
            _POPULATION: facts.population,
            _METRICS: json.dumps(dict(facts.metrics)),
        }
    )


def run_filter(manifest: Manifest) -> str:
    """Return MLflow's filter for the runs of a bundle."""
    return f"tags.`{_ID}` = '{manifest.id}'"


def versions(tracking: Tracking, name: ModelName | None = None) -> list[Version]:
    """List all versions, or those of one model, the newest first."""
    name_filter = f"name='{name.registered}'" if name else f"name LIKE '{PREFIX}.%'"
    models = _pages(tracking.search_registered_models, name_filter)
    aliases = {model.name: {k: int(v) for k, v in model.aliases.items()} for model in models}
    entries = (
        _version(entry, aliases.get(entry.name, {}))
        for entry in _pages(tracking.search_model_versions, name_filter)
    )
    return sorted((version for version in entries if version), key=lambda v: (v.name, -v.version))


def registered_version(tracking: Tracking, manifest: Manifest) -> Version | None:
    """Find the version of a bundle; None if it is not registered."""
    candidates = versions(tracking, ModelName.of(manifest.facts))
    return next((version for version in candidates if version.id == manifest.id), None)


def with_alias(candidates: list[Version], alias: str) -> Version | None:
    """Find the version that has an alias, among the versions of one model."""
    return next((version for version in candidates if alias in version.aliases), None)


def former_champions(tracking: Tracking, name: ModelName) -> list[int]:
    """List the version numbers of a model's former champions, the latest last."""
    for model in tracking.search_registered_models(f"name='{name.registered}'"):
        return [int(version) for version in json.loads(model.tags.get(_FORMER, "[]"))]
    return []


def remember_champions(tracking: Tracking, name: ModelName, former: list[int]) -> None:
    """Store the version numbers that `former_champions` returns."""
    tracking.set_registered_model_tag(name.registered, _FORMER, json.dumps(former[-_REMEMBERED:]))


def explain_promotion(tracking: Tracking, version: Version, why: str) -> None:
    """Store why a version replaces the champion without a person's decision."""
    tracking.set_model_version_tag(version.name.registered, str(version.version), _PROMOTED, why)


def _version(entry: Any, aliases: Mapping[str, int]) -> Version | None:
    name = ModelName.from_registered(entry.name)
    if name is None or _ID not in entry.tags:
        return None  # a version of another program
    number = int(entry.version)
    return Version(
        name,
        number,
        entry.tags[_ID],
        entry.run_id,
        tuple(sorted(alias for alias, version in aliases.items() if version == number)),
        int(entry.tags[_CREATED]),
        entry.tags[_POPULATION],
        json.loads(entry.tags[_METRICS]),
        entry.tags.get(_RULE),
        json.loads(entry.tags.get(_READING, "null")),
        entry.tags.get(_PROMOTED),
    )


def _pages(search: Callable[..., Any], name_filter: str) -> Iterator[Any]:
    token = None
    while True:
        page = search(name_filter, page_token=token)
        yield from page
        token = page.token
        if not token:
            return
