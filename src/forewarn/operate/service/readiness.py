"""Whether a service can answer now: its store, its models, its updates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import time
from typing import Any

from forewarn.errors import ForewarnError
from forewarn.learn.registry.serving import Serving
from forewarn.operate.service.updates import UpdateStatus
from forewarn.operate.workspace import Workspace

STALE = 900  # seconds without a successful round after which answers rest on old data


@dataclass(frozen=True, slots=True, kw_only=True)
class PartStatus:
    """One part of the service: whether it works, and what is wrong."""

    name: str  # store, models, updates
    works: bool
    needed: bool  # without it requests cannot be answered
    detail: str | None = None


_DEAD_UPDATES = PartStatus(
    name="updates", works=False, needed=True, detail="the updates have ended: restart the service"
)


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether requests can be answered, part by part."""

    parts: tuple[PartStatus, ...]

    @property
    def is_ready(self) -> bool:
        """Whether every part that is needed works."""
        return all(part.works for part in self.parts if part.needed)

    def without_details(self) -> Readiness:
        """Leave out what is wrong, for a stranger: it has paths, and the words of Slurm."""
        return Readiness(tuple(replace(part, detail=None) for part in self.parts))

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "ready": self.is_ready,
            "parts": {
                part.name: {"works": part.works, "needed": part.needed, "detail": part.detail}
                for part in self.parts
            },
        }


def readiness_of(workspace: Workspace, status: UpdateStatus, *, has_died: bool = False) -> Readiness:
    """Check each part; nothing is asked of Slurm. `has_died`: the thread of the updates has ended."""
    store = _store(workspace, is_reading_history=status.is_reading_history)
    updates = _DEAD_UPDATES if has_died else _updates(status)
    return Readiness((store, _models(workspace), updates))


def _store(workspace: Workspace, *, is_reading_history: bool) -> PartStatus:
    try:
        clusters = workspace.reading().clusters()
    except ForewarnError as error:
        return PartStatus(name="store", works=False, needed=True, detail=str(error))
    detail = None if clusters else "no history yet: `forewarn ingest`, or let the service collect"
    if is_reading_history:
        detail = "reading history"
    return PartStatus(name="store", works=True, needed=True, detail=detail)


def _models(workspace: Workspace) -> PartStatus:
    """Check that a model serves; a service without one still checks scripts and nodes."""
    try:
        names = list(Serving(workspace.config.home / "models").names())
    except (ForewarnError, OSError) as error:
        return PartStatus(name="models", works=False, needed=False, detail=str(error))
    detail = None if names else "no model serves yet: `forewarn train`"
    return PartStatus(name="models", works=bool(names), needed=False, detail=detail)


def _updates(status: UpdateStatus) -> PartStatus:
    if status.mode == "stopped":
        return PartStatus(name="updates", works=False, needed=False, detail="the service is stopping")
    troubles = "; ".join(f"{name}: {trouble}" for name, trouble in sorted(status.troubles.items()))
    is_current = time() - (status.last_success_at or status.started_at) < STALE
    return PartStatus(name="updates", works=is_current, needed=False, detail=troubles or None)
