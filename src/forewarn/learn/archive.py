"""A bundle as one file, to carry to another machine: a tar of its regular files and nothing else."""

from __future__ import annotations

import gzip
import tarfile
from pathlib import Path

from forewarn.errors import BundleError
from forewarn.files import whole_file
from forewarn.learn.manifest import MANIFEST, Manifest, files_in

SUFFIXES = (".tar.gz", ".tgz")
# No model comes near these: they keep a crafted archive from filling the disk.
LARGEST = 4 << 30  # bytes of all files together
MOST = 10_000  # files


def is_archive(path: Path) -> bool:
    """Whether a name is that of an archive, and not of a folder."""
    return path.name.endswith(SUFFIXES)


def pack(folder: Path, target: Path) -> None:
    """Write a verified bundle as an archive. The same bundle gives the same bytes."""
    manifest = Manifest.verify(folder)
    paths = {MANIFEST: folder / MANIFEST, **files_in(folder)}
    with (
        whole_file(target) as partial,
        partial.open("wb") as raw,
        gzip.GzipFile("", "wb", fileobj=raw, mtime=manifest.facts.created) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for name, path in paths.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime, entry.mode = path.stat().st_size, manifest.facts.created, 0o644
            with path.open("rb") as file:
                tar.addfile(entry, file)


def unpack(archive: Path, folder: Path) -> Manifest:
    """Extract an archive into a folder, and verify it. Whatever else it may hold is refused."""
    try:
        with tarfile.open(archive, "r:gz") as tar:
            total = 0
            for number, entry in enumerate(tar, 1):
                if not (entry.isreg() or entry.isdir()):
                    raise _refused(archive, f"{entry.name!r} is no plain file")
                total += entry.size
                if number > MOST or total > LARGEST:
                    raise _refused(archive, f"more than {MOST:,} files or {LARGEST >> 30} GiB")
                # Refuses absolute names and those that lead out of the folder.
                tar.extract(entry, folder, filter="data")
    except FileNotFoundError:
        raise BundleError(f"{archive}: no such file") from None
    except (tarfile.TarError, EOFError, OSError, ValueError) as error:
        raise _refused(archive, str(error)) from None
    return Manifest.verify(folder)


def _refused(archive: Path, why: str) -> BundleError:
    return BundleError(f"{archive}: not an archive that `forewarn models export` wrote: {why}")
