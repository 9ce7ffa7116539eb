"""Who may read the home: its owner only, or a group that it is shared with.

The home's own mode is the setting: a folder with setgid that its group may enter (2750) is shared, and what
is created in it gets the group and may be read by it (0640). Any other home is private: folders 0700, files
0600, whatever the umask. `forewarn config share GROUP` sets it, `--off` takes it back.
"""

from __future__ import annotations

import grp
import os
import stat
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from forewarn.errors import UsageError

_PRIVATE, _GROUP = 0o077, 0o027  # umasks
_callers_umask: int | None = None  # while ours is stricter


@contextmanager
def private_files() -> Iterator[None]:
    """Create every file and folder in the block readable by the owner only, whatever the umask."""
    global _callers_umask
    before, _callers_umask = _callers_umask, os.umask(_PRIVATE)
    try:
        yield
    finally:
        os.umask(_callers_umask)
        _callers_umask = before


def work_in(home: Path) -> None:
    """Let the group of a shared home read what is created from now on, within `private_files`."""
    if _callers_umask is not None and is_shared(home):
        os.umask(_GROUP)


def callers_umask() -> int | None:
    """Return the umask that the user has set, if ours differs now."""
    return _callers_umask


def is_shared(home: Path) -> bool:
    """Check whether a group may read this home."""
    try:
        mode = home.stat().st_mode
    except OSError:
        return False
    return bool(mode & stat.S_ISGID) and mode & 0o070 == 0o050


def file_mode(home: Path) -> int:
    """Return the mode of a file in a home."""
    return 0o640 if is_shared(home) else 0o600


def share(home: Path, group: str, *, but: Collection[Path] = ()) -> None:
    """Let a group read a home, now and from now on; `but` are files that stay private."""
    try:
        number = grp.getgrnam(group).gr_gid
    except KeyError:
        raise UsageError(f"no group {group!r} here: `getent group` lists those that there are") from None
    _change(home, group=number, folders=0o2750, files=0o640, but=but)


def unshare(home: Path) -> None:
    """Make a home private to its owner again."""
    _change(home, group=None, folders=0o700, files=0o600)


def tighten(path: Path, mode: int) -> None:
    """Reduce the mode of a file or folder of this user to `mode`, if an older version left it wider."""
    with suppress(OSError):
        about = path.lstat()
        if about.st_uid == os.getuid() and not stat.S_ISLNK(about.st_mode) and about.st_mode & 0o777 & ~mode:
            path.chmod(about.st_mode & 0o7777 & (mode | 0o7000))


def _change(home: Path, *, group: int | None, folders: int, files: int, but: Collection[Path] = ()) -> None:
    if not home.is_dir():
        raise UsageError(f"{home}: no such folder; `forewarn ingest` or `forewarn collect` creates it")
    if home.stat().st_uid != os.getuid():
        raise UsageError(f"{home}: belongs to another user; only its owner can share it")
    # The home last where it is opened: until then nobody enters; links are not followed.
    for folder, _, names in os.walk(home, topdown=group is None):
        for path in (*(Path(folder, name) for name in names), Path(folder)):
            about = path.lstat()
            is_secret = any(secret.exists() and path.samefile(secret) for secret in but)
            if is_secret or not (stat.S_ISREG(about.st_mode) or stat.S_ISDIR(about.st_mode)):
                continue
            if group is not None and about.st_gid != group:
                try:
                    os.chown(path, -1, group, follow_symlinks=False)
                except PermissionError:
                    raise UsageError(
                        f"{path}: cannot be given to that group: you must be one of its members"
                    ) from None
            path.chmod(folders if stat.S_ISDIR(about.st_mode) else files)
