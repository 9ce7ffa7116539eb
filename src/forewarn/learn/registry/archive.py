"""Archives of bundles, to copy a model to another machine: a tar of regular files and nothing else."""

from __future__ import annotations

import gzip
import tarfile
from pathlib import Path

from forewarn.errors import BundleError
from forewarn.files import whole_file
from forewarn.learn.registry.manifest import MANIFEST, Manifest, files_in

SUFFIXES = (".tar.gz", ".tgz")
# Far above any model: these limits keep a crafted archive from filling the disk.
LARGEST = 1 << 30  # bytes of all files together
MOST = 200  # files; a bundle has about 20
HEADERS = 1 << 20  # bytes of all headers together
AT_ONCE = 64 << 10  # bytes of one read: tarfile reads a whole header into memory, whatever its size
_PLAIN = (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.DIRTYPE)


class _LimitedGzip(gzip.GzipFile):
    """The tar inside a gzip file, read in small pieces: 1 MB of gzip can hold a header of 1 GB.

    All headers share one allowance; the size of a file is added to it when the file is extracted.
    """

    left = HEADERS

    def read(self, size: int | None = -1) -> bytes:
        """Read a small number of bytes. Raises `ValueError` above the limits."""
        if size is None or not 0 <= size <= AT_ONCE:
            raise ValueError(f"a header of more than {AT_ONCE:,} bytes")
        self.left -= size
        if self.left < 0:
            raise ValueError(f"headers of more than {HEADERS:,} bytes in total")
        return super().read(size)


def is_archive(path: Path) -> bool:
    """Check whether a path is named like an archive, and not like a folder."""
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
    """Extract an archive into a folder, and verify it.

    Raises `BundleError` for anything but plain files, for names that lead out of the folder, and above the
    limits.
    """
    try:
        with _LimitedGzip(archive, "rb") as plain, tarfile.open(fileobj=plain, mode="r:") as tar:
            number = total = 0
            while (entry := tar.next()) is not None:
                # tarfile would keep every entry with its headers in memory.
                tar.members.clear()  # type: ignore[attr-defined]
                if entry.type not in _PLAIN or entry.issparse():
                    raise _refused(archive, f"{entry.name!r} is no plain file")
                number, total = number + 1, total + entry.size
                if number > MOST or total > LARGEST:
                    raise _refused(archive, f"more than {MOST:,} files or {LARGEST >> 30} GiB")
                plain.left += entry.size if entry.isreg() else 0
                # Refuses absolute names and those that lead out of the folder.
                tar.extract(entry, folder, filter="data")
    except FileNotFoundError:
        raise BundleError(f"{archive}: no such file") from None
    except (tarfile.TarError, EOFError, OSError, ValueError, RecursionError) as error:
        raise _refused(archive, str(error)) from None
    return Manifest.verify(folder)


def _refused(archive: Path, why: str) -> BundleError:
    return BundleError(f"{archive}: not an archive that `forewarn models export` wrote: {why}")
