"""The models that there are, which of them serves, and bundles that wait until the registry can be reached.

HOME/models/mlflow.db, artifacts/    the registry itself, where no server is configured
HOME/models/pending/<id>/            bundles trained but not registered yet
HOME/models/serving/, cache/         what serves here: see `serving.py`
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
from forewarn.learn.registry.recording import BUNDLE, recorded
from forewarn.learn.registry.serving import ModelName, Serving
from forewarn.learn.registry.tracking import Tracking, alone, embedded_uri, shown
from forewarn.learn.registry.versions import (
    CHALLENGER,
    CHAMPION,
    Version,
    aliased,
    former_champions,
    registered,
    remember_champions,
    versions,
)


@dataclass(frozen=True, slots=True)
class SyncResult:
    """What a sync did."""

    logged: tuple[Version, ...]  # that had been waiting
    waiting: Mapping[Path, str]  # what still does, and why
    served: tuple[Version, ...]  # champions that serve here now and did not before


class Registry:
    """The registry as seen from one home; `tracking` is an MLflow URI, None a database in the home."""

    def __init__(self, home: Path, tracking: str | None = None) -> None:
        self._folder = home / "models"
        self._database = None if tracking else self._folder / "mlflow.db"
        self.uri = tracking or embedded_uri(self._folder / "mlflow.db")
        self.serving = Serving(self._folder)

    # --- what there is ------------------------------------------------------------------------------

    def versions(self, name: ModelName | None = None) -> list[Version]:
        """All versions, or those of one model, the newest first."""
        return [] if self._is_new else versions(self._tracking, name)

    def version(self, name: ModelName, which: int | str = CHAMPION) -> Version:
        """One version of a model, by its number or alias."""
        known = self.versions(name)
        for version in known:
            if version.version == which or which in version.aliases:
                return version
        if not known:
            raise RegistryError(
                f"no model {name} in {shown(self.uri)}. `forewarn models list` shows those that there are, "
                "`forewarn train` makes one"
            )
        there = ", ".join(" ".join((str(v.version), *v.aliases)) for v in known)
        what = which if isinstance(which, str) else f"version {which}"
        raise RegistryError(f"{name} has no {what}. Its versions are: {there}")

    def former_champions(self, name: ModelName) -> list[int]:
        """What `rollback` goes back to, the latest last."""
        return [] if self._is_new else former_champions(self._tracking, name)

    def bundle(self, version: Version) -> Path:
        """The verified bundle of a version, fetched if it is not here."""
        with self._alone() if self._may_write else nullcontext():
            return self._fetched(version)

    def champion(self, cluster: str, phase: str, feature_set: str) -> Path:
        """The bundle that serves. MLflow is asked only where nothing served here before."""
        name = ModelName(cluster, phase, feature_set)
        folder = self.serving.champion(name)
        if folder is not None:
            return folder
        version = self.version(name)
        with self._alone():
            return self._serve(version)

    def waiting(self) -> list[Path]:
        """Bundles trained but not registered yet, the oldest first."""
        folders = [f for f in self._folder.glob("pending/*") if not f.name.endswith(".partial")]
        return sorted(folders, key=lambda folder: folder.stat().st_mtime)

    # --- what changes it ----------------------------------------------------------------------------

    def record(self, folder: Path) -> Version | None:
        """Keep a bundle and register it; None, with a warning, where that has to wait.

        The first version of a model becomes its champion, later ones its challenger; so does a first one
        whose report forbids that it serves.
        """
        manifest = Manifest.verify(folder)
        if manifest.facts.phase == POSTHOC:
            raise LearningError(
                f"{folder}: a posthoc model knows what is known only when a job has ended. It is for "
                "comparison with the papers and is never registered; train for --phase submit or start"
            )
        kept = self._folder / "pending" / manifest.id
        if not kept.exists():
            _copy(folder, kept)
        try:
            with self._alone():
                logged, problems = self._log_waiting()
        except RegistryError as error:
            logged, problems = [], {kept: str(error)}
        if problems:
            reasons = "\n".join(dict.fromkeys(problems.values()))
            warnings.warn(
                f"{reasons}\nNot registered, but kept: {', '.join(map(str, problems))}\n"
                "The next training registers it, or `forewarn models sync`",
                stacklevel=2,
            )
        mine = next((version for version in logged if version.id == manifest.id), None)
        # In neither list: another process registered it in between.
        return mine or (None if kept in problems else registered(self._tracking, manifest))

    def sync(self) -> SyncResult:
        """Register what waits, and let the registry's champions serve here."""
        with self._alone():
            logged, problems = self._log_waiting()
            served = [] if self._is_new or problems else list(self._follow())
            self.serving.tidy()
        return SyncResult(tuple(logged), problems, tuple(served))

    def promote(self, name: ModelName, which: int | str = CHALLENGER) -> Version:
        """Make a version the champion: it serves from now on."""
        with self._alone():
            target = self.version(name, which)
            self._fetched(target)  # nothing is changed for a bundle that is not whole
            now = aliased(self.versions(name), CHAMPION)
            former = former_champions(self._tracking, name)
            if now and now != target and former[-1:] != [now.version]:
                remember_champions(self._tracking, name, [*former, now.version])
            return self._crown(target)

    def rollback(self, name: ModelName) -> Version:
        """Make the champion before this one the champion again. Goes back further each time."""
        with self._alone():
            now = self.version(name)
            there = {version.version: version for version in self.versions(name)}
            former = former_champions(self._tracking, name)
            while former:
                before = there.get(former.pop())
                if before and before != now:
                    self._fetched(before)
                    # The memory after the champion: should that fail, it names the champion itself, which is
                    # passed over.
                    back = self._crown(before)
                    remember_champions(self._tracking, name, former)
                    return back
        raise RegistryError(f"{name}: there was no champion before version {now.version}")

    def export(self, version: Version, target: Path) -> None:
        """Write the bundle of a version as a folder, or as one file where the name ends in .tar.gz."""
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
            Bundle.load(folder)  # the first of its name serves at once: it had better work here
            return self.record(folder)

    # --- inside -------------------------------------------------------------------------------------

    @property
    def _is_new(self) -> bool:
        """Whether there cannot be anything yet, so that MLflow, slow to import, is not needed to tell."""
        return self._database is not None and not self._database.exists()

    @cached_property
    def _tracking(self) -> Tracking:
        if self._database is None:
            return Tracking(self.uri)
        if not self._may_write:
            return Tracking(embedded_uri(self._copied(self._database)))
        with alone(self._folder / "opening.lock"):  # the first one in makes the tables
            return Tracking(self.uri)

    def _log_waiting(self) -> tuple[list[Version], dict[Path, str]]:
        """Register every bundle that waits. What cannot be stays, with the reason."""
        logged: list[Version] = []
        problems: dict[Path, str] = {}
        waiting = self.waiting()
        if not waiting:
            return logged, problems
        try:
            versions(self._tracking)
        except RegistryError as error:  # once for all of them: a server that is down takes seconds each time
            return logged, dict.fromkeys(waiting, str(error))
        for folder in waiting:
            try:
                manifest = Manifest.verify(folder)
                version = recorded(self._tracking, folder, manifest, self._folder / "artifacts")
                self._fetched(version, folder)
                if CHAMPION in version.aliases:
                    self._serve(version)
                logged.append(version)
                shutil.rmtree(folder, ignore_errors=True)  # what is left is found registered the next time
            except ForewarnError as error:
                problems[folder] = str(error)
        return logged, problems

    def _follow(self) -> Iterator[Version]:
        """Let the champions serve, also of models that another machine has registered."""
        for champion in self.versions():
            if CHAMPION not in champion.aliases:
                continue
            name = champion.name
            with suppress(BundleError):
                served = self.serving.served(name)
                if served and served.id == champion.id and Manifest.verify(self.serving.copy_of(served.id)):
                    continue
            self._serve(champion)
            yield champion

    def _crown(self, target: Version) -> Version:
        name = target.name
        self._tracking.set_registered_model_alias(name.registered, CHAMPION, str(target.version))
        if CHALLENGER in target.aliases:
            self._tracking.delete_registered_model_alias(name.registered, CHALLENGER)
        self._serve(target)
        return self.version(name, target.version)

    def _serve(self, version: Version) -> Path:
        folder = self._fetched(version)
        self.serving.point(version.name, version.version, version.id)
        return folder

    def _fetched(self, version: Version, source: Path | None = None) -> Path:
        """The verified copy of a version's bundle: here already, from a folder, or from the registry."""
        copy = self.serving.copy_of(version.id)
        with suppress(BundleError):
            if Manifest.verify(copy).id == version.id:
                return copy
        with self._scratch() as scratch:
            found = source or Path(self._tracking.download_artifacts(version.run, BUNDLE, str(scratch)))
            try:
                is_it = Manifest.verify(found).id == version.id
            except BundleError as error:
                what = str(error).removeprefix(f"{found}/")
                raise BundleError(f"{version.name} version {version.version}: {what}") from None
            if not is_it:
                raise BundleError(
                    f"{version.name} version {version.version}: the registry holds another bundle than the "
                    "one that was registered. Promote another version, or train a new one"
                )
            shutil.rmtree(copy, ignore_errors=True)  # damaged
            _copy(found, copy)
        return copy

    @contextmanager
    def _scratch(self) -> Iterator[Path]:
        self._folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self._folder, prefix="scratch-") as scratch:
            yield Path(scratch)

    def _alone(self) -> AbstractContextManager[None]:
        """While this home's registry is changed, nobody else does."""
        if not self._may_write:
            raise RegistryError(f"{self._folder}: no permission to change the registry: that is its owner's")
        return alone(self._folder / "changing.lock")

    @cached_property
    def _may_write(self) -> bool:
        there = (place for place in (self._folder, self._database) if place is not None and place.exists())
        return all(os.access(place, os.W_OK, effective_ids=True) for place in there)

    def _copied(self, database: Path) -> Path:
        """A private copy of the database: MLflow opens one for writing, whatever it is asked."""
        folder = tempfile.mkdtemp(prefix="forewarn-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        copy = Path(folder, database.name)
        try:
            with (
                closing(sqlite3.connect(f"file:{quote(str(database))}?mode=ro", uri=True)) as here,
                closing(sqlite3.connect(copy)) as there,
            ):
                here.backup(there)
        except sqlite3.Error as error:
            raise RegistryError(f"{database}: cannot be read ({error})") from None
        return copy


def _copy(folder: Path, target: Path, *, private: bool = True) -> None:
    with whole_folder(target, private=private) as partial:
        shutil.copytree(folder, partial, dirs_exist_ok=True)
        Manifest.verify(partial)
