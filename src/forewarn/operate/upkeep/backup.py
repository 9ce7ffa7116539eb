"""A backup of a home in one file, taken while others write to it."""

from __future__ import annotations

import shutil
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from forewarn import __version__
from forewarn.config import Config
from forewarn.config.settings import all_settings
from forewarn.errors import UsageError
from forewarn.files import SUFFIX, check_target, whole_file, write_file
from forewarn.learn.registry.tracking import exclusive_lock
from forewarn.operate.upkeep.backup_archive import BackupManifest, describe, write_archive
from forewarn.progress import ShowProgress, no_progress
from forewarn.store.database_files import copy_database
from forewarn.store.opening import location_of

NAME = ".tar.gz"
CONFIG_NAME = "config.toml"
_REGISTRY = Path("models", "mlflow.db")
_STALE = 86400  # seconds after which what a killed backup left beside its target is removed


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupResult:
    """A backup that was written."""

    file: Path
    size: int  # bytes
    files: int
    content: int  # bytes of all files in it
    versions: dict[str, int]
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return asdict(self) | {"file": str(self.file)}


def backup(
    config: Config, target: Path, *, at: int | None = None, watch: ShowProgress = no_progress
) -> BackupResult:
    """Write a backup of the home to a file, or to a new file in a folder. Any version of a store is saved.

    The store, people's entries and the registry are each as they are at one moment. Secrets of the config
    file are left out, and so are files that hold raw rows (rejects) or simulations.
    """
    at = int(time.time()) if at is None else at
    if target.is_dir():
        target = target / f"forewarn-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(at))}{NAME}"
    if not target.name.endswith(NAME):
        raise UsageError(f"{target}: the name of a backup ends in {NAME}, or is a folder that exists")
    check_target(target)
    if target.exists():
        raise UsageError(f"{target}: is there already; name another file")
    location = location_of(config)
    if not location.exists:
        raise UsageError(f"{config.home}: no store in this folder, so there is nothing to save")
    _remove_stale(target)
    with _scratch(target) as scratch, _registry_at_rest(config):
        location.copy_parts(scratch, watch)
        notes = _copy_config(config, scratch)
        if (config.home / _REGISTRY).exists():
            (scratch / "models").mkdir(mode=0o700)
            with watch("copying the registry") as progress:
                copy_database(config.home / _REGISTRY, scratch / _REGISTRY, progress)
        paths = dict(_files(scratch)) | {
            name: path for name, path in _files(config.home, under="models") if not (scratch / name).exists()
        }
        with watch("hashing files"):
            found = {name: describe(path) for name, path in sorted(paths.items())}
        manifest = BackupManifest(
            forewarn=__version__,
            made_at=at,
            home=str(config.home.absolute()),
            versions={name: version.found for name, version in location.check_parts(scratch).items()},
            files=found,
        )
        with watch(f"writing {target.name}") as progress, whole_file(target, private=True) as partial:
            partial.chmod(0o600)
            write_archive(partial, manifest, {name: paths[name] for name in found}, progress)
    return BackupResult(
        file=target,
        size=target.stat().st_size,
        files=len(found),
        content=manifest.size,
        versions=dict(manifest.versions),
        notes=tuple(notes),
    )


@contextmanager
def _scratch(target: Path) -> Iterator[Path]:
    """Create a private folder beside the target: there is room for the copies if there is for the backup."""
    try:
        folder = Path(mkdtemp(prefix=f".{target.name}.", suffix=SUFFIX, dir=target.parent))
    except OSError as error:
        raise UsageError(f"{target.parent}: a backup cannot be written there: {error.strerror}") from None
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _remove_stale(target: Path) -> None:
    """Remove what a backup to this folder left that was killed."""
    for path in target.parent.glob(f".*{NAME}.*{SUFFIX}"):
        if not path.is_symlink() and time.time() - path.stat().st_mtime > _STALE:
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


@contextmanager
def _registry_at_rest(config: Config) -> Iterator[None]:
    """Keep others from changing the models meanwhile; bundles never change, but old copies are removed."""
    models = config.home / "models"
    with exclusive_lock(models / "changing.lock") if models.is_dir() else nullcontext():
        yield


def _files(home: Path, under: str = "") -> Iterator[tuple[str, Path]]:
    """Yield the files that are saved, by their names in the home."""
    for path in sorted((home / under).rglob("*")):
        name = path.relative_to(home).as_posix()
        is_passing = path.name.endswith((SUFFIX, ".lock", "-wal", "-shm", "-journal")) or any(
            part.startswith((".", "scratch-")) for part in path.relative_to(home).parts
        )
        if not is_passing and path.is_file() and not path.is_symlink():
            yield name, path


def _copy_config(config: Config, scratch: Path) -> list[str]:
    """Copy the config file without its secrets."""
    path = config.home / CONFIG_NAME
    if not path.exists():
        return []
    secret = {name.rpartition(".")[2] for name, one in all_settings().items() if one.metadata["secret"]}
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if line.split("=")[0].strip() not in secret]
    text = "".join(kept)
    try:
        left = _keys(tomllib.loads(text))
    except tomllib.TOMLDecodeError:
        left = secret  # a secret over several lines
    if left & secret:
        return [f"{CONFIG_NAME} is not in the backup: its secrets could not be left out"]
    write_file(scratch / CONFIG_NAME, text, private=True)
    return [f"secrets of {CONFIG_NAME} are not in the backup"] if len(kept) < len(lines) else []


def _keys(table: dict[str, Any]) -> set[str]:
    inner = [_keys(value) for value in table.values() if isinstance(value, dict)]
    return set(table).union(*inner)
