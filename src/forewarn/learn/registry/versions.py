"""What MLflow knows of Forewarn's models, in Forewarn's words."""

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
_PROMOTED = f"{PREFIX}.promoted_because"  # of a version that replaced a champion by itself
_FORMER = f"{PREFIX}.former_champions"  # of a model: the versions as JSON, the latest last
_REMEMBERED = 1000  # of them


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a model, as the registry knows it."""

    name: ModelName
    version: int
    id: str  # of its bundle
    run: str  # whose artifact the bundle is
    aliases: tuple[str, ...]
    created: int
    population: str
    metrics: Mapping[str, float]
    rule: str | None = None  # the simple rule that it is, where no model beat it
    reading: Mapping[str, str] | None = None  # how fields were read, as `Facts` has it
    promoted_because: str | None = None  # why it replaced the champion by itself


def tags_of(manifest: Manifest) -> dict[str, str]:
    """What a run and a version say of their bundle, so that a list of models needs no bundle."""
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


def tagged(manifest: Manifest) -> str:
    """A filter for the runs of a bundle."""
    return f"tags.`{_ID}` = '{manifest.id}'"


def versions(tracking: Tracking, name: ModelName | None = None) -> list[Version]:
    """All versions, or those of one model, the newest first."""
    wanted = f"name='{name.registered}'" if name else f"name LIKE '{PREFIX}.%'"
    models = _pages(tracking.search_registered_models, wanted)
    aliases = {model.name: {k: int(v) for k, v in model.aliases.items()} for model in models}
    found = (
        _version(entry, aliases.get(entry.name, {}))
        for entry in _pages(tracking.search_model_versions, wanted)
    )
    return sorted((version for version in found if version), key=lambda v: (v.name, -v.version))


def registered(tracking: Tracking, manifest: Manifest) -> Version | None:
    """The version of a bundle, if there is one."""
    known = versions(tracking, ModelName.of(manifest.facts))
    return next((version for version in known if version.id == manifest.id), None)


def aliased(known: list[Version], alias: str) -> Version | None:
    """Which of one model's versions has the alias."""
    return next((version for version in known if alias in version.aliases), None)


def former_champions(tracking: Tracking, name: ModelName) -> list[int]:
    """The champions before the one of now, the latest last."""
    for model in tracking.search_registered_models(f"name='{name.registered}'"):
        return [int(version) for version in json.loads(model.tags.get(_FORMER, "[]"))]
    return []


def remember_champions(tracking: Tracking, name: ModelName, former: list[int]) -> None:
    """What `former_champions` shall tell from now on."""
    tracking.set_registered_model_tag(name.registered, _FORMER, json.dumps(former[-_REMEMBERED:]))


def explain_promotion(tracking: Tracking, version: Version, why: str) -> None:
    """Record why a version replaces the champion without a person's decision."""
    tracking.set_model_version_tag(version.name.registered, str(version.version), _PROMOTED, why)


def _version(entry: Any, aliases: Mapping[str, int]) -> Version | None:
    name = ModelName.from_registered(entry.name)
    if name is None or _ID not in entry.tags:
        return None  # another program's
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


def _pages(search: Callable[..., Any], wanted: str) -> Iterator[Any]:
    token = None
    while True:
        page = search(wanted, page_token=token)
        yield from page
        token = page.token
        if not token:
            return
