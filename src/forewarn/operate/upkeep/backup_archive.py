"""The archive of a backup: a manifest with the hash of every file, then the files, and nothing else."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import IO, Any, Self

from forewarn.errors import BackupError
from forewarn.files import sync
from forewarn.progress import StageProgress

FORMAT = 1
MANIFEST = "backup.json"
_LARGEST_MANIFEST = 64 << 20  # bytes
_HEADERS = 64 << 10  # bytes of one header: tarfile reads a whole one into memory
_AT_ONCE = 1 << 20
_PLAIN = (tarfile.REGTYPE, tarfile.AREGTYPE)
# A name of a file in the home: parts without links upwards, control characters or a first dot.
_PART = re.compile(r"[A-Za-z0-9_%+,=@-][A-Za-z0-9_%+,=@.-]{0,250}")
_FIRST = ("forewarn.db", "people.db", "erasure.key", "config.toml", "models")


@dataclass(frozen=True, slots=True)
class SavedFile:
    """The hash and the size of a file in a backup."""

    sha256: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupManifest:
    """What a backup holds, and where it is from."""

    forewarn: str
    made_at: int
    home: str  # the folder that it was taken from
    versions: Mapping[str, int]  # of the parts of the store
    files: Mapping[str, SavedFile]
    format: int = FORMAT

    @property
    def size(self) -> int:
        """The size of all files in bytes."""
        return sum(file.size for file in self.files.values())

    def to_json(self) -> dict[str, Any]:
        """Return the content of the manifest."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Read a manifest; `ValueError` unless every name is one of a home's."""
        if value.get("format") != FORMAT:
            raise ValueError(f"its format is {value.get('format')!r}, and this Forewarn reads {FORMAT}")
        known = {one.name: value[one.name] for one in fields(cls)}
        files = {
            name: SavedFile(str(one["sha256"]), int(one["size"])) for name, one in value["files"].items()
        }
        for name, file in files.items():
            parts = name.split("/")
            if parts[0] not in _FIRST or not all(map(_PART.fullmatch, parts)) or file.size < 0:
                raise ValueError(f"{name!r} is not a file of a home")
            if (len(parts) > 1) != (parts[0] == "models"):
                raise ValueError(f"{name!r} is not a file of a home")
        versions = {str(part): int(number) for part, number in value["versions"].items()}
        return cls(**(known | {"files": files, "versions": versions, "home": str(value["home"])}))


def describe(path: Path) -> SavedFile:
    """Hash a file."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
        return SavedFile(digest.hexdigest(), file.tell())


def write_archive(
    target: Path, manifest: BackupManifest, paths: Mapping[str, Path], progress: StageProgress
) -> None:
    """Write an archive; raise `BackupError` if a file is not as the manifest says."""
    done = 0
    with (
        target.open("wb") as raw,
        gzip.GzipFile("", "wb", compresslevel=1, fileobj=raw, mtime=manifest.made_at) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        text = json.dumps(manifest.to_json()).encode()
        tar.addfile(_entry(MANIFEST, len(text), manifest.made_at), io.BytesIO(text))
        for name, path in paths.items():
            expected = manifest.files[name]
            with path.open("rb") as file:
                hashed = _HashedFile(file)
                tar.addfile(_entry(name, expected.size, manifest.made_at), hashed)  # type: ignore[arg-type]
            if hashed.sha256 != expected.sha256:
                raise BackupError(f"{path}: changed while it was saved; try again")
            done += expected.size
            progress(done, manifest.size)
    sync(target)


class OpenArchive:
    """An archive that is read once, from its beginning: the manifest, then the files."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._plain = _LimitedGzip(path, "rb")
        except OSError as error:
            raise BackupError(f"{path}: cannot be read: {error.strerror}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._plain.close()

    def read_manifest(self) -> BackupManifest:
        """Read the first entry."""
        try:
            self._tar = tarfile.open(fileobj=self._plain, mode="r:")  # noqa: SIM115 - closed with the file
            entry = self._tar.next()
            if entry is None or entry.name != MANIFEST or entry.type not in _PLAIN:
                raise ValueError(f"it does not begin with {MANIFEST}")
            if entry.size > _LARGEST_MANIFEST:
                raise ValueError("its manifest is too large")
            content = b"".join(self._content(entry))
            return BackupManifest.from_json(json.loads(content))
        except _UNREADABLE as error:
            raise self._refused(error) from None

    def extract(self, manifest: BackupManifest, folder: Path, progress: StageProgress) -> None:
        """Write the files into an empty folder, and compare each with its hash."""
        left, done = dict(manifest.files), 0
        try:
            while (entry := self._tar.next()) is not None:
                self._tar.members.clear()  # type: ignore[attr-defined] # tarfile would keep them all
                expected = left.pop(entry.name, None)
                if expected is None or entry.type not in _PLAIN or entry.issparse():
                    raise ValueError(f"{entry.name!r} is not a plain file that its manifest names")
                if entry.size != expected.size:
                    raise ValueError(f"{entry.name!r} has another size than its manifest says")
                self._write(entry, folder / entry.name, expected)
                done += entry.size
                progress(done, manifest.size)
        except _UNREADABLE as error:
            raise self._refused(error) from None
        if left:
            raise self._refused(f"it ends before {next(iter(left))!r}")

    def _write(self, entry: tarfile.TarInfo, target: Path, expected: SavedFile) -> None:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        digest = hashlib.sha256()
        with os.fdopen(os.open(target, flags, 0o600), "wb") as file:
            for part in self._content(entry):
                digest.update(part)
                file.write(part)
        if digest.hexdigest() != expected.sha256:
            raise ValueError(f"{entry.name!r} has another hash than its manifest says")

    def _content(self, entry: tarfile.TarInfo) -> Iterator[bytes]:
        self._plain.is_header = False
        file = self._tar.extractfile(entry)
        assert file is not None
        left = entry.size
        while left:
            part = file.read(min(left, _AT_ONCE))
            if not part:
                raise EOFError("it is cut short")
            left -= len(part)
            yield part
        self._plain.is_header = True

    def _refused(self, why: object) -> BackupError:
        if isinstance(why, gzip.BadGzipFile):
            why = "its content is not compressed with gzip"  # Python's text quotes bytes of it
        return BackupError(f"{self.path}: not a backup that `forewarn store backup` wrote, or damaged: {why}")


_UNREADABLE = (
    tarfile.TarError,
    zlib.error,
    EOFError,
    OSError,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    RecursionError,
)


class _LimitedGzip(gzip.GzipFile):
    """The tar inside a gzip file, with small headers only: 1 MB of gzip can hold a header of 1 GB."""

    is_header = True

    def read(self, size: int | None = -1) -> bytes:
        """Read some bytes; raises `ValueError` for a header above the limit."""
        if size is None or size < 0 or size > (_HEADERS if self.is_header else _AT_ONCE):
            raise ValueError(f"a header of more than {_HEADERS:,} bytes")
        return super().read(size)


class _HashedFile:
    """A file that is hashed as it is read."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._digest = file, hashlib.sha256()

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def read(self, size: int) -> bytes:
        part = self._file.read(size)
        self._digest.update(part)
        return part


def _entry(name: str, size: int, made_at: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mtime, entry.mode = size, made_at, 0o600
    return entry
