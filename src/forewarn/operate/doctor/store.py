"""Whether what is collected can be kept."""

from __future__ import annotations

import os

from forewarn.config import Config
from forewarn.errors import StoreError
from forewarn.operate.doctor.findings import Finding, Level
from forewarn.store.embedded import FILE, open_store
from forewarn.store.filesystem import MOUNTS, refuse_network


def writable(config: Config) -> Finding:
    """Whether the store can be written; it is not made here."""
    home = config.home
    try:
        refuse_network(home, MOUNTS.read_text(errors="replace") if MOUNTS.exists() else "")
        if (home / FILE).exists():
            open_store(home).close()
    except StoreError as error:
        return Finding("store", Level.PROBLEM, str(error))
    there = home
    while not there.exists():
        there = there.parent
    if not os.access(there, os.W_OK | os.X_OK):
        return Finding("store", Level.PROBLEM, f"{there}: no permission to write there; set FOREWARN_HOME")
    return Finding("store", Level.FINE, f"{home}: can be written")
