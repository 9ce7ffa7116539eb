"""What a home holds: versions, sizes, counts and ages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from forewarn.errors import BundleError
from forewarn.job.columns import SCHEMAS
from forewarn.learn.registry.manifest import Manifest
from forewarn.learn.registry.serving import Serving
from forewarn.operate.workspace import Workspace
from forewarn.store.base import Store
from forewarn.store.location import StoreVersion
from forewarn.store.opening import location_of
from forewarn.store.people import ENTRY_TYPES

_SECONDS_AT_ONCE = 30 * 86400  # of assessments whose bodies are read


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterHoldings:
    """The records of one cluster."""

    records: Mapping[str, int]  # by kind
    first_submit: int | None
    last_submit: int | None
    assessments: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelState:
    """Whether a model that serves can be used by this version."""

    model: str
    forewarn: str | None  # the version that trained it
    problem: str | None = None  # why it cannot be used: train a new one


@dataclass(slots=True, kw_only=True)
class StoreInfo:
    """What a home holds."""

    home: Path
    versions: Mapping[str, StoreVersion]
    sizes: Mapping[str, int] = field(default_factory=dict)  # bytes by part
    clusters: Mapping[str, ClusterHoldings] = field(default_factory=dict)
    entries: Mapping[str, int] = field(default_factory=dict)
    erased_users: int = 0
    history_kept: int | None = None  # days
    assessments_kept: int = 0
    audit_kept: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return asdict(self) | {"home": str(self.home)}


def store_info(workspace: Workspace) -> StoreInfo:
    """Count what the home holds; migrate nothing."""
    config, location = workspace.config, location_of(workspace.config)
    info = StoreInfo(
        home=config.home,
        versions=location.versions(),
        sizes=_sizes(config.home),
        history_kept=config.history_kept,
        assessments_kept=config.assessments_kept,
        audit_kept=config.audit_kept,
    )
    if not location.exists or not all(version.is_current for version in info.versions.values()):
        return info
    store = workspace.reading()
    info.clusters = {cluster: _holdings(store, cluster) for cluster in store.clusters()}
    info.erased_users = store.barred_users()
    if location.has_people and location.may_write:
        with location.open_people() as people:
            counts = {name: len(people.entries(name)) for name in ENTRY_TYPES}  # type: ignore[arg-type]
        info.entries = {name: count for name, count in counts.items() if count}
    return info


def model_states(home: Path) -> list[ModelState]:
    """Return whether each model that serves can be used by this version of Forewarn."""
    serving, states = Serving(home / "models"), []
    for name in serving.names():
        version: str | None = None
        problem: str | None = None
        try:
            folder = serving.champion(name)
            if folder is not None:
                version = Manifest.verify(folder).forewarn
        except BundleError as error:
            problem = str(error)
        states.append(ModelState(model=str(name), forewarn=version, problem=problem))
    return states


def assessment_forms(store: Store) -> dict[str, int]:
    """Count stored assessments by the schema version of their JSON; ``none``: of before there was one."""
    times = store.assessments(columns=["made_at"])["made_at"]
    counts: Counter[str] = Counter()
    if times.len():
        for since in range(int(times[0]), int(times[-1]) + 1, _SECONDS_AT_ONCE):
            bodies = store.assessments(since=since, until=since + _SECONDS_AT_ONCE, columns=["body"])["body"]
            versions = bodies.str.extract(r'^\{"schema_version":\s?(\d+)').fill_null("none")
            counts.update(dict(versions.value_counts().iter_rows()))
    return dict(sorted(counts.items()))


def _holdings(store: Store, cluster: str) -> ClusterHoldings:
    first = last = None
    for frame in store.scan(cluster=cluster, columns=["submit"]):
        if frame.height:
            first = int(frame["submit"][0]) if first is None else first
            last = int(frame["submit"][-1])
    records = {kind: store.count(kind, cluster=cluster) for kind in SCHEMAS}
    return ClusterHoldings(
        records={kind: count for kind, count in records.items() if count},
        first_submit=first,
        last_submit=last,
        assessments=store.assessments(cluster=cluster, columns=["made_at"]).height,
    )


def _sizes(home: Path) -> dict[str, int]:
    sizes: Counter[str] = Counter()
    for path in home.rglob("*"):
        if path.is_file() and not path.is_symlink():
            part = path.relative_to(home).parts[0]
            sizes[part.removesuffix("-wal").removesuffix("-shm")] += path.stat().st_size
    return dict(sorted(sizes.items()))
