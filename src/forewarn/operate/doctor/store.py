"""The check that the store can be written."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from forewarn.config import Config
from forewarn.errors import StoreError
from forewarn.operate.doctor.findings import DoctorFinding, Severity
from forewarn.sharing import is_shared
from forewarn.store.opening import location_of


def writable(config: Config) -> DoctorFinding:
    """Check that the store can be written, without creating it."""
    home = config.home
    try:
        location_of(config).check()
    except StoreError as error:
        return DoctorFinding("store", Severity.PROBLEM, str(error))
    folder = home
    while not folder.exists():
        folder = folder.parent
    if not os.access(folder, os.W_OK | os.X_OK):
        return DoctorFinding(
            "store", Severity.PROBLEM, f"{folder}: no permission to write; set FOREWARN_HOME"
        )
    if (mode := _open_to_others(home)) is not None:
        message = (
            f"{home}: other users can read it (mode {mode:o}): chmod 700 {home}, or "
            "`forewarn config share GROUP`"
        )
        return DoctorFinding("store", Severity.WARNING, message)
    return DoctorFinding("store", Severity.FINE, f"{home}: writable")


def _open_to_others(home: Path) -> int | None:
    """Return the mode of a home that is neither private nor shared on purpose."""
    if not home.exists() or is_shared(home):
        return None
    mode = stat.S_IMODE(home.stat().st_mode)
    return mode if mode & 0o077 else None
