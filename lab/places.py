"""Where the lab keeps things on this machine: trees are built once and shared, state belongs to one lab."""

from __future__ import annotations

import os
from pathlib import Path


def cache_home() -> Path:
    """Trees and locks; all of it can be deleted while no lab is up."""
    return _xdg("XDG_CACHE_HOME", ".cache") / "forewarn" / "lab"


def default_state(version: str) -> Path:
    """Return the state folder of a user's default lab of a version."""
    return _xdg("XDG_STATE_HOME", ".local/state") / "forewarn" / "lab" / version


def _xdg(variable: str, default: str) -> Path:
    return Path(os.environ.get(variable) or Path.home() / default)
