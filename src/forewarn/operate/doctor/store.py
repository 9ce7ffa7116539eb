"""Whether what is collected can be kept."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from forewarn.config import Config
from forewarn.errors import StoreError
from forewarn.operate.doctor.findings import DoctorFinding, Severity
from forewarn.sharing import is_shared
from forewarn.store.opening import place_of


def writable(config: Config) -> DoctorFinding:
    """Whether the store can be written; it is not made here."""
    home = config.home
    try:
        place_of(config).check()
    except StoreError as error:
        return DoctorFinding("store", Severity.PROBLEM, str(error))
    there = home
    while not there.exists():
        there = there.parent
    if not os.access(there, os.W_OK | os.X_OK):
        return DoctorFinding(
            "store", Severity.PROBLEM, f"{there}: no permission to write there; set FOREWARN_HOME"
        )
    if (mode := _open_to_others(home)) is not None:
        said = f"{home}: others can look into it (mode {mode:o}): chmod 700, or `forewarn config share GROUP`"
        return DoctorFinding("store", Severity.WARNING, said)
    return DoctorFinding("store", Severity.FINE, f"{home}: can be written")


def _open_to_others(home: Path) -> int | None:
    """The mode of a home that is neither private nor shared on purpose."""
    if not home.exists() or is_shared(home):
        return None
    mode = stat.S_IMODE(home.stat().st_mode)
    return mode if mode & 0o077 else None
