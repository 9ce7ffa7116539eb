"""The registry of models: versions, champions, and bundles that wait until the registry can be reached.

HOME/models/mlflow.db, artifacts/    the registry itself, if no server is configured
HOME/models/pending/<id>/            trained bundles that are not registered yet
HOME/models/serving/, cache/         the bundles that serve in this home: see `serving.py`
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import warnings
import weakref
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from urllib.parse import quote

from forewarn.errors import BundleError, ForewarnError, LearningError, RegistryError
from forewarn.files import whole_folder
from forewarn.job.phase import POSTHOC
from forewarn.learn.registry.archive import is_archive, pack, unpack
from forewarn.learn.registry.manifest import Manifest
from forewarn.learn.registry.recording import BUNDLE, record_bundle
from forewarn.learn.registry.serving import ModelName, Serving
from forewarn.learn.registry.tracking import Tracking, embedded_uri, exclusive_lock, without_password
from forewarn.learn.registry.versions import (
    CHALLENGER,
    CHAMPION,
    Version,
    former_champions,
    registered_version,
    remember_champions,
    versions,
    with_alias,
)


@dataclass(frozen=True, slots=True)
class SyncResult:
    """The changes of a sync."""

    logged: tuple[Version, ...]  # versions of bundles that were waiting
    waiting: Mapping[Path, str]  # bundles that still wait, and why
    served: tuple[Version, ...]  # champions that serve in this home now and did not before


class Registry:
    """The registry of a home; `tracking` is an MLflow URI, or None for a database in the home."""

    def __init__(self, home: Path, tracking: str | None = None) -> None:
        self._folder = home / "models"
        self._database = None if tracking else self._folder / "mlflow.db"
        self.uri = tracking or embedded_uri(self._folder / "mlflow.db")
        self.serving = Serving(self._folder)

    # --- queries ------------------------------------------------------------------------------------

    def versions(self, name: ModelName | None = None) -> list[Version]:
        """List all versions, or those of one model, the newest first."""
        return [] if self._is_new else versions(self._tracking, name)

    def version(self, name: ModelName, which: int | str = CHAMPION) -> Version:
        """Find a version of a model by its number or alias. Raises `RegistryError` if there is none."""
        candidates = self.versions(name)
        for version in candidates:
            if version.version == which or which in version.aliases:
                return version
        if not candidates:
            raise RegistryError(
                f"no model {name} in {without_password(self.uri)}. `forewarn models list` shows all models, "
                "`forewarn train` trains one"
            )
        existing = ", ".join(" ".join((str(v.version), *v.aliases)) for v in candidates)
        missing = which if isinstance(which, str) else f"version {which}"
        raise RegistryError(f"{name} has no {missing}. Its versions are: {existing}")

    def former_champions(self, name: ModelName) -> list[int]:
        """List the version numbers to which `rollback` returns, the latest last."""
        return [] if self._is_new else former_champions(self._tracking, name)

    def bundle(self, version: Version) -> Path:
        """Return the folder of a version's verified bundle, after fetching it if necessary."""
        with self._exclusive() if self._may_write else nullcontext():
            return self._fetch(version)

    def champion(self, cluster: str, phase: str, feature_set: str) -> Path:
        """Return the folder of the bundle that serves; from MLflow only if none serves in this home yet."""
        name = ModelName(cluster, phase, feature_set)
        folder = self.serving.champion(name)
        if folder is not None:
            return folder
        version = self.version(name)
        with self._exclusive():
            return self._serve(version)

    def waiting(self) -> list[Path]:
        """List the trained bundles that are not registered yet, the oldest first."""
        folders = [f for f in self._folder.glob("pending/*") if not f.name.endswith(".partial")]
        return sorted(folders, key=lambda folder: folder.stat().st_mtime)

    # --- changes ------------------------------------------------------------------------------------

    def record(self, folder: Path) -> Version | None:
        """Store a bundle and register it; None, with a warning, if the registration has to wait.

        The first version of a model becomes its champion, later ones its challenger. A first version whose
        report forbids serving becomes challenger, too.
        """
        manifest = Manifest.verify(folder)
        if manifest.facts.phase == POSTHOC:
            raise LearningError(
                f"{folder}: a posthoc model uses values that are known only when a job has ended. It is for "
                "comparison with the papers and is never registered; train for --phase submit or start"
            )
        waiting_copy = self._folder / "pending" / manifest.id
        if not waiting_copy.exists():
            _copy(folder, waiting_copy)
        try:
            with self._exclusive():
                logged, problems = self._register_waiting()
        except RegistryError as error:
            logged, problems = [], {waiting_copy: str(error)}
        if problems:
            reasons = "\n".join(dict.fromkeys(problems.values()))
            warnings.warn(
                f"{reasons}\nNot registered, but kept: {', '.join(map(str, problems))}\n"
                "The next training registers it, or `forewarn models sync`",
                stacklevel=2,
            )
        mine = next((version for version in logged if version.id == manifest.id), None)
        # Neither registered here nor failed: another process registered it in between.
        return mine or (None if waiting_copy in problems else registered_version(self._tracking, manifest))

    def sync(self) -> SyncResult:
        """Register the bundles that wait, and make the registry's champions serve in this home."""
        with self._exclusive():
            logged, problems = self._register_waiting()
            served = [] if self._is_new or problems else list(self._serve_champions())
            self.serving.tidy()
        return SyncResult(tuple(logged), problems, tuple(served))

    def promote(self, name: ModelName, which: int | str = CHALLENGER) -> Version:
        """Make a version the champion, so that it serves from now on."""
        with self._exclusive():
            target = self.version(name, which)
            self._fetch(target)  # first: a damaged bundle must not change anything
            champion = with_alias(self.versions(name), CHAMPION)
            former = former_champions(self._tracking, name)
            if champion and champion != target and former[-1:] != [champion.version]:
                remember_champions(self._tracking, name, [*former, champion.version])
            return self._make_champion(target)

    def rollback(self, name: ModelName) -> Version:
        """Make the previous champion the champion again. Each call goes back one further."""
        with self._exclusive():
            champion = self.version(name)
            by_number = {version.version: version for version in self.versions(name)}
            former = former_champions(self._tracking, name)
            while former:
                before = by_number.get(former.pop())
                if before and before != champion:
                    self._fetch(before)
                    # The list of former champions comes second: should its update fail, it ends with the new
                    # champion itself, which the next rollback skips.
                    restored = self._make_champion(before)
                    remember_champions(self._tracking, name, former)
                    return restored
        raise RegistryError(f"{name}: there was no champion before version {champion.version}")

    def export(self, version: Version, target: Path) -> None:
        """Write the bundle of a version as a folder, or as an archive if the name ends in .tar.gz."""
        folder = self.bundle(version)
        if is_archive(target):
            pack(folder, target)
        else:
            _copy(folder, target, private=False)

    def import_(self, source: Path) -> Version | None:
        """Register a bundle from a folder or an archive, as `record` does."""
        from forewarn.learn.registry.bundle import Bundle

        if not (source.is_dir() or is_archive(source)):
            raise BundleError(f"{source}: neither a folder nor an archive (.tar.gz) of a bundle")
        with self._scratch() as scratch:
            folder = source if source.is_dir() else scratch
            if folder != source:
                unpack(source, folder)
            Bundle.load(folder)  # a check: the first version of a model serves at once
            return self.record(folder)

    # --- internals ----------------------------------------------------------------------------------

    @property
    def _is_new(self) -> bool:
        """Whether there is no database yet, so that MLflow, slow to import, is not needed."""
        return self._database is not None and not self._database.exists()

    @cached_property
    def _tracking(self) -> Tracking:
        if self._database is None:
            return Tracking(self.uri)
        if not self._may_write:
            return Tracking(embedded_uri(self._copy_database(self._database)))
        with exclusive_lock(self._folder / "opening.lock"):  # the first process creates the tables
            return Tracking(self.uri)

    def _register_waiting(self) -> tuple[list[Version], dict[Path, str]]:
        """Register every bundle that waits; return the versions, and the failures with their reasons."""
        logged: list[Version] = []
        problems: dict[Path, str] = {}
        waiting = self.waiting()
        if not waiting:
            return logged, problems
        try:
            versions(self._tracking)
        except RegistryError as error:  # tried once for all: a server that is down takes seconds each time
            return logged, dict.fromkeys(waiting, str(error))
        for folder in waiting:
            try:
                manifest = Manifest.verify(folder)
                version = record_bundle(self._tracking, folder, manifest, self._folder / "artifacts")
                self._fetch(version, folder)
                if CHAMPION in version.aliases:
                    self._serve(version)
                logged.append(version)
                # Should it remain, the next call finds the bundle registered already.
                shutil.rmtree(folder, ignore_errors=True)
            except ForewarnError as error:
                problems[folder] = str(error)
        return logged, problems

    def _serve_champions(self) -> Iterator[Version]:
        """Make all champions serve, also those that another machine has registered; yield the new ones."""
        for champion in self.versions():
            if CHAMPION not in champion.aliases:
                continue
            name = champion.name
            with suppress(BundleError):
                served = self.serving.served_model(name)
                if served and served.id == champion.id and Manifest.verify(self.serving.copy_of(served.id)):
                    continue
            self._serve(champion)
            yield champion

    def _make_champion(self, target: Version) -> Version:
        name = target.name
        self._tracking.set_registered_model_alias(name.registered, CHAMPION, str(target.version))
        if CHALLENGER in target.aliases:
            self._tracking.delete_registered_model_alias(name.registered, CHALLENGER)
        self._serve(target)
        return self.version(name, target.version)

    def _serve(self, version: Version) -> Path:
        folder = self._fetch(version)
        self.serving.point(version.name, version.version, version.id)
        return folder

    def _fetch(self, version: Version, source: Path | None = None) -> Path:
        """Return the verified copy of a version's bundle, made from `source` or the registry if missing."""
        copy = self.serving.copy_of(version.id)
        with suppress(BundleError):
            if Manifest.verify(copy).id == version.id:
                return copy
        with self._scratch() as scratch:
            folder = source or Path(self._tracking.download_artifacts(version.run, BUNDLE, str(scratch)))
            try:
                is_registered_one = Manifest.verify(folder).id == version.id
            except BundleError as error:
                problem = str(error).removeprefix(f"{folder}/")
                raise BundleError(f"{version.name} version {version.version}: {problem}") from None
            if not is_registered_one:
                raise BundleError(
                    f"{version.name} version {version.version}: the registry holds another bundle than the "
                    "one that was registered. Promote another version, or train a new one"
                )
            shutil.rmtree(copy, ignore_errors=True)  # a damaged copy
            _copy(folder, copy)
        return copy

    @contextmanager
    def _scratch(self) -> Iterator[Path]:
        self._folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self._folder, prefix="scratch-") as scratch:
            yield Path(scratch)

    def require_permission(self) -> None:
        """Raise `RegistryError` where this user may not change the registry."""
        if not self._may_write:
            raise RegistryError(f"{self._folder}: no permission to change the registry; ask its owner")

    def _exclusive(self) -> AbstractContextManager[None]:
        """Lock this home's registry for a change. Raises `RegistryError` without write permission."""
        self.require_permission()
        return exclusive_lock(self._folder / "changing.lock")

    @cached_property
    def _may_write(self) -> bool:
        paths = (path for path in (self._folder, self._database) if path is not None and path.exists())
        return all(os.access(path, os.W_OK, effective_ids=True) for path in paths)

    def _copy_database(self, database: Path) -> Path:
        """Make a private copy of the database: MLflow opens a database for writing, also for queries."""
        folder = tempfile.mkdtemp(prefix="forewarn-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        copy = Path(folder, database.name)
        try:
            with (
                closing(sqlite3.connect(f"file:{quote(str(database))}?mode=ro", uri=True)) as original,
                closing(sqlite3.connect(copy)) as target,
            ):
                original.backup(target)
        except sqlite3.Error as error:
            raise RegistryError(f"{database}: cannot be read ({error})") from None
        return copy


def _copy(folder: Path, target: Path, *, private: bool = True) -> None:
    with whole_folder(target, private=private) as partial:
        shutil.copytree(folder, partial, dirs_exist_ok=True)
        Manifest.verify(partial)
