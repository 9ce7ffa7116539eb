"""Numba's compiler, set for this kernel: little to compile, and a cache that cannot be stale.

What only the kernel calls is compiled without the wrappers for Python, without reference counts
(nothing is allocated in it) and is cached within its callers: 18 s of compiling instead of 47 s.
Numba notices a change only in a function's own file, so the cache lies in a folder named by a digest of
all the kernel's files; this also serves installations that cannot be written to.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])
_njit: Any = numba.njit  # its stubs know not all of its options
_LEAN = {"error_model": "numpy", "_nrt": False}


def inner(function: F) -> F:
    """A function that only compiled ones call."""
    return cast(F, _njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, **_LEAN)(function))


def entry(function: F) -> F:
    """A function that Python calls."""
    return cast(F, _cached(lambda: _njit(cache=True, **_LEAN)(function)))


def typed(signature: str) -> Callable[[F], F]:
    """A small function with fixed types: left to itself, Numba compiles one for each constant passed."""

    def compile_it(function: F) -> F:
        return cast(F, _cached(lambda: _njit(signature, cache=True)(function)))

    return compile_it


def _cached(compile_it: Callable[[], Any]) -> Any:
    settings: Any = numba.config
    before, settings.CACHE_DIR = settings.CACHE_DIR, _cache_folder()
    try:
        return compile_it()
    finally:
        settings.CACHE_DIR = before


@cache
def _cache_folder() -> str:
    digest = hashlib.sha256(numba.__version__.encode())
    for source in sorted(Path(__file__).resolve().parent.glob("*.py")):
        digest.update(source.read_bytes())
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = base / "forewarn" / "simulator" / digest.hexdigest()[:16]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:  # no home, or one that cannot be written: compile again, once per process
        folder = Path(tempfile.mkdtemp(prefix="forewarn-simulator-"))
    return str(folder)
