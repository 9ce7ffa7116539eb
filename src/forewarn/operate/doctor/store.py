"""Checks of the store: that it can be written, that it is whole and has room, and that it is up to date."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from forewarn.config import Config
from forewarn.errors import StoreError
from forewarn.formatting import byte_size, rough_duration
from forewarn.operate.doctor.findings import DoctorFinding, Severity
from forewarn.operate.freshness import STALE, newest_record_time
from forewarn.sharing import is_shared
from forewarn.sources.slurm.clock import Clock
from forewarn.store.opening import location_of, open_store

_LITTLE_ROOM = 1 << 30  # bytes


def store(config: Config, clock: Clock) -> Iterator[DoctorFinding]:
    """Check the store; it is neither created nor migrated."""
    found = writable(config)
    yield found
    if found.level is Severity.PROBLEM or not config.home.exists():
        return
    free = shutil.disk_usage(config.home).free
    if free < _LITTLE_ROOM:
        message = f"{config.home}: {byte_size(free)} free on its disk: make room, or `forewarn store prune`"
        yield DoctorFinding("store", Severity.WARNING, message)
    if (config.home / "forewarn.db").exists():
        try:
            yield from _contents(config, clock)
        except StoreError as error:
            yield DoctorFinding("store", Severity.PROBLEM, str(error))


def _contents(config: Config, clock: Clock) -> Iterator[DoctorFinding]:
    now = int(clock.now())
    with open_store(config, read_only=True) as opened:
        for cluster in opened.clusters():
            newest = newest_record_time(opened, cluster, now)
            age = None if newest is None else max(now - newest, 0)
            if age is not None and age <= STALE:
                message = f"{cluster}: newest record {rough_duration(age)} old"
                yield DoctorFinding("store", Severity.FINE, message)
                continue
            since = "no records" if age is None else f"the newest record is {rough_duration(age)} old"
            message = f"{cluster}: {since}: `forewarn serve`, `forewarn collect` or `forewarn ingest`"
            yield DoctorFinding("store", Severity.WARNING, message)


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
