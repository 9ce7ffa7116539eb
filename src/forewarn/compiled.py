"""Numba's compiler with our settings: little to compile, and a cache that cannot be stale.

Numba notices a change only in a function's own file, not in the constants and functions that it took from
others. So the cache of a kernel lies in a folder named by a digest of all files of the kernel's package, in
the user's cache and not in the installation, which may be read-only. What only the kernel calls is compiled
without the wrappers for Python and is cached within its callers.

A kernel is plain Python that Numba can compile. Python calls its `EntryPoint`s, which compile it on the first
call; `plain` runs the same code uncompiled, which is faster for one or two jobs in a process that has not
loaded Numba, since loading takes longer than processing one event in Python.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from threading import RLock
from typing import Any, Generic, ParamSpec, TypeVar, cast

import numpy

from forewarn.files import is_ours

# What whoever installs Forewarn has compiled for its users: operate/precompile.py.
SHARED = Path(__file__).parent / "__compiled__"

# Rows that plain Python, at some milliseconds each, walks sooner than Numba is loaded, and sooner than it
# compiles, which takes half a minute.
FEW_ROWS, FEW_UNCOMPILED = 100, 5000

F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")
R = TypeVar("R")
_inner: list[Callable[..., Any]] = []  # functions that only kernels call, and Numba has not heard of yet
_cold: list[Path] = []  # caches that were empty
_compiling = RLock()  # Numba has one global setting for the cache folder


def is_cold() -> bool:
    """Check whether no kernel is compiled yet in this process: the first call takes many seconds."""
    return not all(map(_is_filled, _cold))


def is_loaded() -> bool:
    """Check whether this process has loaded Numba, which takes longer than most that it makes faster."""
    return "numba" in sys.modules


def always_compile() -> None:
    """Run no kernel as plain Python from now on, however few the rows: to fill the cache."""
    global FEW_ROWS, FEW_UNCOMPILED
    FEW_ROWS = FEW_UNCOMPILED = 0


def _njit(*args: Any, **options: Any) -> Any:
    import numba

    decorate: Any = numba.njit  # its stubs know not all of its options
    return decorate(*args, **options)


def inner(function: F) -> F:
    """Mark a function that kernels call. It stays plain Python, which Numba compiles within its callers."""
    _inner.append(function)
    return function


class EntryPoint(Generic[P, R]):
    """A kernel function that Python calls: compiled, or `plain`."""

    def __init__(self, function: Callable[P, R]) -> None:
        self.function = function
        self._compiled: Callable[P, R] | None = None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run it compiled."""
        if self._compiled is None:
            self._compiled = cast(Callable[P, R], _cached(self.function, self._compile))
        return self._compiled(*args, **kwargs)

    def plain(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run it as Python, ignoring overflow (hashes rely on it) and NaN warnings as Numba does."""
        with numpy.errstate(all="ignore"):
            return self.function(*args, **kwargs)

    def for_rows(self, rows: int) -> Callable[P, R]:
        """Return the faster variant for so many rows in this process."""
        if self._compiled is not None or rows > FEW_UNCOMPILED:
            return self
        is_filled = _is_filled(Path(_cache_folder(Path(self.function.__code__.co_filename).parent)))
        return self.plain if rows <= (FEW_ROWS if is_filled else FEW_UNCOMPILED) else self

    def _compile(self) -> Any:
        from numba.extending import register_jitable

        while _inner:
            register_jitable(error_model="numpy")(_inner.pop())
        return _njit(cache=True, error_model="numpy")(self.function)


def entry(function: Callable[P, R]) -> EntryPoint[P, R]:
    """Turn a kernel's function into an entry point for Python."""
    return EntryPoint(function)


def typed(signature: str) -> Callable[[F], F]:
    """Fix the types of a small function: otherwise Numba compiles one for each constant passed."""

    def compile_it(function: F) -> F:
        return cast(F, _cached(function, lambda: _njit(signature, cache=True)(function)))

    return compile_it


def _cached(function: Callable[..., Any], compile_it: Callable[[], Any]) -> Any:
    import numba

    settings: Any = numba.config
    folder = _cache_folder(Path(function.__code__.co_filename).parent)
    if not _is_filled(Path(folder)):
        _cold.append(Path(folder))
    with _compiling:
        before, settings.CACHE_DIR = settings.CACHE_DIR, folder
        try:
            return compile_it()
        finally:
            settings.CACHE_DIR = before


@cache
def _cache_folder(package: Path) -> str:
    digest = hashlib.sha256(version("numba").encode())
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
    return str(folder)


def _is_filled(folder: Path) -> bool:
    try:
        return any(folder.rglob("*.nbc"))
    except OSError:  # another user's
        return False


def _take_shared(folder: Path) -> None:
    """Fill an empty cache with what was compiled at installation, if that is as trustworthy as the code."""
    shared = SHARED / folder.name
    with suppress(OSError):
        owner = Path(__file__).stat().st_uid
        for path in (SHARED, shared, *shared.rglob("*")):
            found = path.lstat()
            if found.st_uid != owner or stat.S_ISLNK(found.st_mode) or found.st_mode & 0o022:
                return
        shutil.copytree(shared, folder, dirs_exist_ok=True)
