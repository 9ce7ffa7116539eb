"""Restoring of a backup into a home: all of it, verified, or nothing."""

from __future__ import annotations

import secrets
import shutil
import sqlite3
import time
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from forewarn.config import Config
from forewarn.errors import BackupError, StoreBusyError, StoreError, UsageError
from forewarn.files import sync, whole_folder
from forewarn.formatting import byte_size
from forewarn.operate.access.audit import write_audit_line
from forewarn.operate.access.home_actions import home_owner
from forewarn.operate.upkeep.backup import CONFIG_NAME
from forewarn.operate.upkeep.backup_archive import BackupManifest, OpenArchive
from forewarn.operate.upkeep.exchange import exchange
from forewarn.operate.upkeep.holders import users_of_home
from forewarn.progress import ShowProgress, no_progress
from forewarn.store.filesystem import refuse_unfit
from forewarn.store.opening import location_of
from forewarn.store.people_embedded import FILE as PEOPLE_FILE
from forewarn.store.people_embedded import open_embedded_people


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreResult:
    """A home that was restored."""

    home: Path
    made_at: int  # when the backup was taken
    forewarn: str  # the version that took it
    files: int
    moved_aside: Path | None  # where the home that was there before is now
    tokens: int = 0  # service tokens in it; some may have been revoked since the backup

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        aside = None if self.moved_aside is None else str(self.moved_aside)
        return asdict(self) | {"home": str(self.home), "moved_aside": aside}


def restore(
    config: Config,
    archive: Path,
    *,
    replace: bool = False,
    at: int | None = None,
    watch: ShowProgress = no_progress,
) -> RestoreResult:
    """Restore a backup into the home, which must be empty but for its config file.

    With `replace` a home that is there is moved aside first, and nothing of it is deleted. The new home gets
    its name when every file has been verified.
    """
    home, at = config.home.absolute(), int(time.time()) if at is None else at
    _check_home(config, home, replace=replace)
    ready = home.with_name(f".{home.name}.{secrets.token_hex(8)}.restored")
    try:
        with OpenArchive(archive) as opened, whole_folder(ready, private=True) as folder:
            manifest = opened.read_manifest()
            _check_room(home.parent, manifest, archive)
            with watch("reading the backup") as progress:
                opened.extract(manifest, folder, progress)
            with watch("checking the store"):
                _check_store(config, folder, archive)
            _move_artifacts(folder, Path(manifest.home), home)
            tokens = _end_sessions(folder)
            _write_down(folder, archive, manifest)
            _keep_config(home, folder)
        _private(ready)
        aside = _put_in_place(ready, home, at)
    finally:
        shutil.rmtree(ready, ignore_errors=True)
    return RestoreResult(
        home=home,
        made_at=manifest.made_at,
        forewarn=manifest.forewarn,
        files=len(manifest.files),
        moved_aside=aside,
        tokens=tokens,
    )


def _check_home(config: Config, home: Path, *, replace: bool) -> None:
    refuse_unfit(home)
    if not home.parent.is_dir():
        raise UsageError(f"{home.parent}: no such folder; create it, or name another --home")
    if not home.exists():
        return
    if home.is_symlink() or not home.is_dir():
        raise UsageError(f"{home}: is a link or a file; name a folder")
    if home.is_mount():
        raise UsageError(
            f"{home}: is a mount point, which cannot be replaced as a whole; name a folder in it as --home"
        )
    others = [path.name for path in home.iterdir() if path.name not in (CONFIG_NAME, "claims")]
    if others and not replace:
        raise UsageError(
            f"{home}: is not empty ({others[0]}); use --replace, which moves it aside, or another --home"
        )
    if holders := location_of(config).holders():
        raise StoreBusyError(
            f"{home}: {users_of_home(holders)} uses it now; stop it first, so that what it writes is not lost"
        )


def _check_room(folder: Path, manifest: BackupManifest, archive: Path) -> None:
    room = shutil.disk_usage(folder).free
    if manifest.size > room:
        raise BackupError(
            f"{archive}: holds {byte_size(manifest.size)}, and {folder} has room for {byte_size(room)} only"
        )


def _check_store(config: Config, folder: Path, archive: Path) -> None:
    try:
        found = location_of(config).check_parts(folder)
    except StoreError as error:
        raise BackupError(f"{archive}: what it holds cannot be used: {error}") from None
    if not found:
        raise BackupError(f"{archive}: holds no store")


def _move_artifacts(folder: Path, before: Path, home: Path) -> None:
    """Let the registry find its bundles in the new home: MLflow keeps absolute addresses."""
    database = folder / "models" / "mlflow.db"
    if not database.exists() or before == home:
        return
    old, new = ((place / "models" / "artifacts").as_uri() for place in (before, home))
    with closing(sqlite3.connect(database)) as connection, connection:
        for table, column in (("experiments", "artifact_location"), ("runs", "artifact_uri")):
            connection.execute(
                f"UPDATE {table} SET {column} = ? || substr({column}, ?) WHERE substr({column}, 1, ?) = ?",
                (new, len(old) + 1, len(old), old),
            )


def _end_sessions(folder: Path) -> int:
    """End all sessions, as some were ended since the backup; return the number of service tokens."""
    if not (folder / PEOPLE_FILE).exists():
        return 0
    with open_embedded_people(folder) as people:
        for session in list(people.entries("session")):
            people.remove("session", session.key)
        return len(list(people.entries("token")))


def _write_down(folder: Path, archive: Path, manifest: BackupManifest) -> None:
    """Add the restoring to the audit log that was restored, which ends with the backup."""
    details = {"made_at": manifest.made_at, "forewarn": manifest.forewarn}
    with open_embedded_people(folder) as people:
        write_audit_line(people, home_owner(), "store.restore", str(archive), details=details)


def _keep_config(home: Path, folder: Path) -> None:
    """Keep a config file that is in the home: it has the secrets, which a backup has not."""
    if (home / CONFIG_NAME).is_file():
        shutil.copyfile(home / CONFIG_NAME, folder / CONFIG_NAME)


def _private(folder: Path) -> None:
    for path in folder.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    folder.chmod(0o700)


def _put_in_place(ready: Path, home: Path, at: int) -> Path | None:
    aside = None
    if home.exists():
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(at))
        aside = home.with_name(f"{home.name}.before-restore-{stamp}")
        if aside.exists():
            raise UsageError(f"{aside}: is there already; move it away first")
        ready.rename(aside)
        exchange(aside, home)
    else:
        ready.rename(home)
    sync(home.parent)
    return aside
