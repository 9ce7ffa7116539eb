"""What a bundle is, and the hash of every file in it: a changed file is refused.

The manifest's own hash is the bundle's `id`. Equal bundles have equal ids, and whoever knows the id
(the registry, the pointer to what is served) notices a bundle that was replaced as a whole.
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
_LARGEST = 16 << 20  # bytes of a manifest: real ones have some thousand
_INSTEAD = "Export or download the model again, or train a new one"


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Where a model came from, and how good it was on jobs that it had not seen."""

    cluster: str
    phase: str
    feature_set: str
    population: str
    data: str  # the fingerprint of the table
    created: int  # Unix seconds
    learnt_until: int = 0  # jobs submitted from then on had no part in the making
    seed: int
    may_serve: bool = True  # else it is no champion before somebody promotes it
    settings: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    # How fields were read (`features.slurm_field_differences.reading_of`). None: by a version that did not record it.
    reading: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class FileFacts:
    """What a file must be."""

    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """The facts of a bundle and its files by their names, which are relative with slashes."""

    facts: Facts
    files: Mapping[str, FileFacts]
    forewarn: str = __version__

    @property
    def id(self) -> str:
        """The SHA-256 of all that the manifest says."""
        return hashlib.sha256(json_text(self._content()).encode()).hexdigest()

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files.values())

    def to_json(self) -> dict[str, Any]:
        """As it stands in `manifest.json`."""
        return {"id": self.id, **self._content()}

    def _content(self) -> dict[str, Any]:
        facts = {known.name: getattr(self.facts, known.name) for known in fields(Facts)}
        if facts["reading"] is None:
            del facts["reading"]  # the id of an older bundle stays what it was
        files = {name: asdict(file) for name, file in self.files.items()}
        return {"format": FORMAT, "forewarn": self.forewarn, **facts, "files": files}

    @classmethod
    def seal(cls, folder: Path, facts: Facts) -> Self:
        """Write the manifest of what lies in a folder now."""
        made = cls(facts, {name: file_facts(path) for name, path in files_in(folder).items()})
        (folder / MANIFEST).write_text(json_text(made.to_json()), encoding="utf-8")
        return made

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Take a folder's manifest at its word: its own hash is right, the files are not looked at."""
        path = folder / MANIFEST
        try:
            if path.stat().st_size > _LARGEST:
                raise _changed(path)
            text = path.read_text(encoding="utf-8")
            value = json.loads(text)
            written_as = value["format"]
        except FileNotFoundError:
            raise BundleError(f"{folder}: no bundle: there is no {MANIFEST}. {_INSTEAD}") from None
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
            known = {"reading": None} | value
            facts = Facts(**{fact.name: known[fact.name] for fact in fields(Facts)})
            files = {name: FileFacts(**file) for name, file in value["files"].items()}
            made = cls(facts, files, value["forewarn"])
            unchanged = json_text(made.to_json()) == text
        except (ValueError, KeyError, TypeError, AttributeError):
            raise _changed(path) from None
        if not unchanged:
            raise _changed(path)
        return made

    @classmethod
    def verify(cls, folder: Path) -> Self:
        """Read a folder's manifest and hold every file against it: none missing, changed or extra."""
        made = cls.read(folder)
        there = files_in(folder)
        for name, file in made.files.items():
            if name not in there:
                raise BundleError(f"{folder / name}: is missing from the bundle. {_INSTEAD}")
            if file_facts(there[name]) != file:
                raise _changed(there[name])
        for name in there.keys() - made.files.keys():
            raise BundleError(f"{folder / name}: is no part of the bundle. Remove it, or: {_INSTEAD}")
        return made


def files_in(folder: Path) -> dict[str, Path]:
    """The files of a bundle by name, without the manifest. Links and devices have no place in one."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise BundleError(f"{path}: is no plain file, and a bundle holds nothing else. {_INSTEAD}")
        if path.is_file() and path != folder / MANIFEST:
            found[path.relative_to(folder).as_posix()] = path
    return found


def file_facts(path: Path) -> FileFacts:
    """What a file is now."""
    with path.open("rb") as file:
        return FileFacts(hashlib.file_digest(file, "sha256").hexdigest(), path.stat().st_size)


def json_text(value: Any) -> str:
    """JSON in one form, so that reading and writing again gives the same; NaN has no place in it."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, indent=1) + "\n"


def _changed(path: Path) -> BundleError:
    return BundleError(f"{path}: was changed after it was written. {_INSTEAD}")
