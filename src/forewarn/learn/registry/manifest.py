"""The manifest of a bundle: where the model came from, and the hash of every file, to detect changes.

The manifest's own hash is the bundle's `id`. Equal bundles have equal ids, and the registry and the pointer
to the served model, which know the id, detect a bundle that was replaced as a whole.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Self

from forewarn import __version__
from forewarn.errors import BundleError

FORMAT = 1
MANIFEST, MODEL = "manifest.json", "model.json"
_LARGEST = 16 << 20  # bytes of a manifest; real ones have a few thousand
_INSTEAD = "Export or download the model again, or train a new one"


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The origin of a model, and its metrics on jobs that were not used in training."""

    cluster: str
    phase: str
    feature_set: str
    population: str
    data: str  # the fingerprint of the table
    created: int  # Unix seconds
    learnt_until: int = 0  # Unix seconds; jobs submitted from then on were not used
    seed: int
    may_serve: bool = True  # else it becomes champion only by a person's promotion
    settings: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    # How fields were read (`features.slurm_field_differences.reading_of`). None: by a version that did not
    # record it.
    reading: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class FileFacts:
    """The hash and the size of a file."""

    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """The facts of a bundle, and its files by name (relative paths with slashes)."""

    facts: Facts
    files: Mapping[str, FileFacts]
    forewarn: str = __version__

    @property
    def id(self) -> str:
        """The SHA-256 of the manifest's content."""
        return hashlib.sha256(json_text(self._content()).encode()).hexdigest()

    @property
    def size(self) -> int:
        """The size of all files in bytes."""
        return sum(file.size for file in self.files.values())

    def to_json(self) -> dict[str, Any]:
        """Return the content of `manifest.json`."""
        return {"id": self.id, **self._content()}

    def _content(self) -> dict[str, Any]:
        facts = {fact.name: getattr(self.facts, fact.name) for fact in fields(Facts)}
        if facts["reading"] is None:
            del facts["reading"]  # so that the id of an older bundle does not change
        files = {name: asdict(file) for name, file in self.files.items()}
        return {"format": FORMAT, "forewarn": self.forewarn, **facts, "files": files}

    @classmethod
    def seal(cls, folder: Path, facts: Facts) -> Self:
        """Write the manifest for the current files of a folder."""
        manifest = cls(facts, {name: file_facts(path) for name, path in files_in(folder).items()})
        (folder / MANIFEST).write_text(json_text(manifest.to_json()), encoding="utf-8")
        return manifest

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read a folder's manifest and check its own hash, but not the files."""
        path = folder / MANIFEST
        try:
            if path.stat().st_size > _LARGEST:
                raise _changed(path)
            text = path.read_text(encoding="utf-8")
            value = json.loads(text)
            written_as = value["format"]
        except FileNotFoundError:
            raise BundleError(f"{folder}: not a bundle: there is no {MANIFEST}. {_INSTEAD}") from None
        except OSError as error:
            raise BundleError(f"{path}: cannot be read: {error.strerror}. {_INSTEAD}") from None
        except (ValueError, KeyError, TypeError, RecursionError):
            raise _changed(path) from None
        if written_as != FORMAT:
            raise BundleError(
                f"{path}: format {written_as!r}, and this Forewarn ({__version__}) reads {FORMAT}. "
                "Use the version that wrote it, or train a new model"
            )
        try:
            values = {"reading": None} | value
            facts = Facts(**{fact.name: values[fact.name] for fact in fields(Facts)})
            files = {name: FileFacts(**file) for name, file in value["files"].items()}
            manifest = cls(facts, files, value["forewarn"])
            unchanged = json_text(manifest.to_json()) == text
        except (ValueError, KeyError, TypeError, AttributeError):
            raise _changed(path) from None
        if not unchanged:
            raise _changed(path)
        return manifest

    @classmethod
    def verify(cls, folder: Path) -> Self:
        """Read a folder's manifest and check every file; a missing, changed or extra one is an error."""
        manifest = cls.read(folder)
        paths = files_in(folder)
        for name, file in manifest.files.items():
            if name not in paths:
                raise BundleError(f"{folder / name}: is missing from the bundle. {_INSTEAD}")
            if file_facts(paths[name]) != file:
                raise _changed(paths[name])
        for name in paths.keys() - manifest.files.keys():
            raise BundleError(f"{folder / name}: is no part of the bundle. Remove it, or: {_INSTEAD}")
        return manifest


def files_in(folder: Path) -> dict[str, Path]:
    """Return the files of a bundle by name, except the manifest; a link or device is a `BundleError`."""
    paths = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise BundleError(f"{path}: is no plain file; a bundle may hold nothing else. {_INSTEAD}")
        if path.is_file() and path != folder / MANIFEST:
            paths[path.relative_to(folder).as_posix()] = path
    return paths


def file_facts(path: Path) -> FileFacts:
    """Compute the hash and the size of a file."""
    with path.open("rb") as file:
        return FileFacts(hashlib.file_digest(file, "sha256").hexdigest(), path.stat().st_size)


def json_text(value: Any) -> str:
    """Format a value as JSON in one canonical form. Raises `ValueError` for NaN."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, indent=1) + "\n"


def _changed(path: Path) -> BundleError:
    return BundleError(f"{path}: was changed after it was written. {_INSTEAD}")
