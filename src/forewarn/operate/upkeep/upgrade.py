"""Upgrade of a home to this version: a backup first, then the migration, then a check of everything."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from forewarn.errors import StoreBusyError, StoreError, UsageError
from forewarn.job.columns import SCHEMAS
from forewarn.operate.access.audit import write_audit_line
from forewarn.operate.access.home_actions import home_owner
from forewarn.operate.upkeep.backup import NAME, backup
from forewarn.operate.upkeep.holders import users_of_home
from forewarn.operate.upkeep.info import ModelState, assessment_forms, model_states
from forewarn.operate.workspace import Workspace
from forewarn.progress import ShowProgress, no_progress
from forewarn.store.location import StoreVersion
from forewarn.store.opening import location_of, open_people_store

BACKUPS = "backups"  # a folder of the home, which no backup contains


@dataclass(slots=True, kw_only=True)
class UpgradeResult:
    """What an upgrade did, or would do."""

    before: Mapping[str, StoreVersion]
    after: Mapping[str, StoreVersion] = field(default_factory=dict)
    backup: Path | None = None
    records: Mapping[str, int] = field(default_factory=dict)  # by kind, when all had been checked
    assessments: Mapping[str, int] = field(default_factory=dict)  # by the version of their form
    models: list[ModelState] = field(default_factory=list)

    @property
    def is_needed(self) -> bool:
        """Whether a part of the store is of an older version."""
        return not all(version.is_current for version in self.before.values())

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return asdict(self) | {"backup": None if self.backup is None else str(self.backup)}


def upgrade(
    workspace: Workspace,
    *,
    dry_run: bool = False,
    backup_to: Path | None = None,
    with_backup: bool = True,
    at: int | None = None,
    watch: ShowProgress = no_progress,
) -> UpgradeResult:
    """Migrate the store to this version. Doing it again changes nothing, and checks everything again.

    Parameters
    ----------
    dry_run
        Only tell the versions, and which models can be used.
    backup_to
        The file or folder of the backup; else a file in the folder `backups` of the home.
    with_backup
        False: take no backup, for example because there is one.
    """
    config, location = workspace.config, location_of(workspace.config)
    if not location.exists:
        raise UsageError(f"{config.home}: no store in this folder, so there is nothing to upgrade")
    result = UpgradeResult(before=location.versions(), models=model_states(config.home))
    if dry_run:
        return result
    if result.is_needed:
        if holders := location.holders():
            raise StoreBusyError(
                f"{config.home}: {users_of_home(holders)} uses it now; stop it, upgrade, and start "
                "it with the new version"
            )
        if with_backup:
            target = _target(config.home, result, int(time.time()) if at is None else at, backup_to)
            result.backup = backup(config, target, at=at, watch=watch).file
    with watch("migrating the store"):
        store = workspace.writing()
        if location.has_people:
            location.open_people().close()
    with watch("checking the store"):
        result.records = {kind: _check_records(workspace, kind) for kind in SCHEMAS}
        result.assessments = assessment_forms(store)
    result.after = location.versions()
    if result.is_needed:
        _write_down(workspace, result)
    return result


def _write_down(workspace: Workspace, result: UpgradeResult) -> None:
    details = {
        "before": {part: version.found for part, version in result.before.items()},
        "after": {part: version.found for part, version in result.after.items()},
        "backup": None if result.backup is None else str(result.backup),
    }
    with open_people_store(workspace.config) as people:
        write_audit_line(people, home_owner(), "store.upgrade", details=details)


def _target(home: Path, result: UpgradeResult, at: int, wanted: Path | None) -> Path:
    if wanted is not None:
        return wanted
    folder = home / BACKUPS
    folder.mkdir(mode=0o700, exist_ok=True)
    versions = "-".join(str(version.found) for version in result.before.values())
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(at))
    return folder / f"before-upgrade-from-{versions}-{stamp}{NAME}"


def _check_records(workspace: Workspace, kind: str) -> int:
    """Read every record of a kind once, and count them; damaged data raises `StoreError`."""
    store = workspace.reading()
    count = sum(frame.height for frame in store.scan(kind))
    if count != store.count(kind):
        raise StoreError(
            f"{workspace.config.home}: {count:,} {kind}s can be read, and {store.count(kind):,} were "
            "counted; restore the backup, and report this"
        )
    return count
