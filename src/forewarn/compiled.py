"""Numba's compiler, set for our kernels: little to compile, and a cache that cannot be stale.

Numba notices a change only in a function's own file, not in the constants and functions that it took from
others. So the cache of a kernel lies in a folder named by a digest of all files of the kernel's package, in
the user's cache and not in the installation, which may be read-only. What only the kernel calls is compiled
without the wrappers for Python and is cached within its callers.

A process that needs the features of one job only is quicker without: loading Numba and the kernel takes
longer than Python takes to walk one event. Such a process says so (`interpret`) before it imports a kernel.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache, wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy

from forewarn.files import is_ours

# What whoever installs Forewarn has compiled for its users: operate/precompile.py.
SHARED = Path(__file__).parent / "__compiled__"

F = TypeVar("F", bound=Callable[..., Any])
_interpreted = False
_cold: list[Path] = []  # caches that were empty


def interpret() -> None:
    """From now on kernels that are imported stay plain Python: for the features of one job, not of many."""
    global _interpreted
    _interpreted = True


def is_interpreted() -> bool:
    """Whether kernels are plain Python in this process."""
    return _interpreted


def is_cold() -> bool:
    """Whether a kernel of this process has nothing compiled yet: its first call takes many seconds."""
    return not all(map(_is_filled, _cold))


def _njit(*args: Any, **options: Any) -> Any:
    import numba

    decorate: Any = numba.njit  # its stubs know not all of its options
    return decorate(*args, **options)


def inner(function: F) -> F:
    """A function that only compiled ones call, and that allocates nothing: it counts no references."""
    if _interpreted:
        return function
    lean = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return cast(F, _njit(error_model="numpy", **lean)(function))


def entry(function: F) -> F:
    """A function that Python calls."""
    if _interpreted:
        return cast(F, _unwarned(function))
    return cast(F, _cached(function, lambda: _njit(cache=True, error_model="numpy")(function)))


def typed(signature: str) -> Callable[[F], F]:
    """A small function with fixed types: left to itself, Numba compiles one for each constant passed."""

    def compile_it(function: F) -> F:
        if _interpreted:
            return function
        return cast(F, _cached(function, lambda: _njit(signature, cache=True)(function)))

    return compile_it


def _unwarned(function: Callable[..., Any]) -> Callable[..., Any]:
    """Numba's arithmetic says nothing of overflows (hashes live on them) and of what is no number."""

    @wraps(function)
    def quiet(*args: Any) -> Any:
        with numpy.errstate(all="ignore"):
            return function(*args)

    return quiet


def _cached(function: Callable[..., Any], compile_it: Callable[[], Any]) -> Any:
    import numba

    settings: Any = numba.config
    before, settings.CACHE_DIR = settings.CACHE_DIR, _cache_folder(Path(function.__code__.co_filename).parent)
    try:
        return compile_it()
    finally:
        settings.CACHE_DIR = before


@cache
def _cache_folder(package: Path) -> str:
    import numba

    digest = hashlib.sha256(numba.__version__.encode())
    for source in sorted(package.glob("*.py")):
        digest.update(source.read_bytes())
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = base / "forewarn" / f"{package.parent.name}-{digest.hexdigest()[:16]}"
    with suppress(OSError):  # no home, or one that cannot be written
        base.mkdir(parents=True, exist_ok=True)
        folder.parent.mkdir(mode=0o700, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
    # Numba runs what it finds there. A cache that others can write to, or that is another user's (a root
    # shell that kept somebody's HOME), is not used: compile again, once per process.
    if not (is_ours(folder.parent) and is_ours(folder)):
        folder = Path(tempfile.mkdtemp(prefix="forewarn-"))
    if not any(folder.iterdir()):
        _take_shared(folder)
    if not _is_filled(folder):
        _cold.append(folder)
    return str(folder)


def _is_filled(folder: Path) -> bool:
    return any(folder.rglob("*.nbc"))


def _take_shared(folder: Path) -> None:
    """Fill an empty cache with what was compiled at the installation, where that is as safe as its code."""
    shared = SHARED / folder.name
    with suppress(OSError):
        owner = Path(__file__).stat().st_uid
        for path in (SHARED, shared, *shared.rglob("*")):
            found = path.lstat()
            if found.st_uid != owner or stat.S_ISLNK(found.st_mode) or found.st_mode & 0o022:
                return
        shutil.copytree(shared, folder, dirs_exist_ok=True)
