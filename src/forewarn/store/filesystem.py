"""Check whether a folder's file system can hold the store.

SQLite's WAL needs memory shared between processes and locks that mean something: over a network it has
neither, and what is lost is lost silently. So such a folder is refused before anything is written.
"""

from __future__ import annotations

from pathlib import Path

from forewarn.errors import UnfitFileSystemError

_MOUNTS = Path("/proc/self/mountinfo")

# As the kernel names them in mountinfo; of fuse's many, those that reach over a network.
NETWORK = frozenset(
    {"nfs", "nfs4", "lustre", "gpfs", "beegfs", "cifs", "smb3", "smbfs", "9p", "ceph", "afs", "ncpfs"}
    | {"panfs", "orangefs", "pvfs2", "ocfs2", "gfs2", "glusterfs", "wekafs", "quobyte", "coda", "vboxsf"}
    | {"fuse.sshfs", "fuse.glusterfs", "fuse.ceph", "fuse.ceph-fuse", "fuse.s3fs", "fuse.rclone"}
    | {"fuse.gcsfuse", "fuse.juicefs", "fuse.JuiceFS", "fuse.mfs", "fuse.beegfs", "fuse.quobyte"}
    | {"fuse.vmhgfs-fuse", "fuse.davfs", "fuse.cvmfs", "fuse.moosefs", "fuse.lizardfs", "davfs"}
)


def refuse_unfit(folder: Path, mounts: str | None = None) -> None:
    """Raise `UnfitFileSystemError` if the folder (it need not exist) is on a network file system.

    `mounts` is the text of ``/proc/self/mountinfo``, which is read where it is not given.
    """
    if mounts is None:
        mounts = _MOUNTS.read_text(errors="replace") if _MOUNTS.exists() else ""
    found = file_system_of(folder, mounts)
    if found is not None and found[1] in NETWORK:
        mount, fs_type = found
        raise UnfitFileSystemError(
            f"{folder}: is on {mount}, a network file system ({fs_type}), where locks do not hold. "
            "Set FOREWARN_HOME (or --home) to a folder on a local disk; each machine needs a home of its "
            "own"
        )


def file_system_of(folder: Path, mounts: str) -> tuple[str, str] | None:
    """Return the mount point that holds a folder, and its type.

    >>> file_system_of(Path("/etc"), "21 1 8:1 / / rw - ext4 /dev/sda1 rw")
    ('/', 'ext4')
    """
    place = folder.resolve()
    found: tuple[str, str] | None = None
    for line in mounts.splitlines():
        fields, dash, system = line.partition(" - ")
        parts = fields.split()
        if not dash or len(parts) < 5 or not system:
            continue
        mount = _unescaped(parts[4])
        # Of equal mount points the later one lies on top.
        if place.is_relative_to(mount) and (found is None or len(mount) >= len(found[0])):
            found = mount, system.split()[0]
    return found


def _unescaped(text: str) -> str:
    r"""Decode the octal escapes of mountinfo for space, tab, newline and backslash.

    >>> _unescaped(r"/mnt/my\040disk")
    '/mnt/my disk'
    """
    for octal, plain in ((r"\040", " "), (r"\011", "\t"), (r"\012", "\n"), (r"\134", "\\")):
        text = text.replace(octal, plain)
    return text
