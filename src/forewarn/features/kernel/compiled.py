"""Numba's compiler with a cache that cannot be stale.

Numba notices a change only in the file of the function itself, not in the constants and functions that
it took from other files. So the cache lies in a folder named by a digest of all that the kernel is made
of; this also serves installations that cannot be written to.
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


@cache
def _cache_folder() -> str:
    here = Path(__file__).resolve().parent
    digest = hashlib.sha256(numba.__version__.encode())
    for source in sorted([*here.glob("*.py"), here.parent / "layout.py"]):
        digest.update(source.read_bytes())
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = base / "forewarn" / "kernel" / digest.hexdigest()[:16]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:  # no home, or one that cannot be written: compile again, once per process
        folder = Path(tempfile.mkdtemp(prefix="forewarn-kernel-"))
    return str(folder)


def compiled(function: F) -> F:
    """A function compiled to machine code when it is first called, and kept for the next process."""
    settings: Any = numba.config
    before, settings.CACHE_DIR = settings.CACHE_DIR, _cache_folder()
    try:
        made: Any = numba.njit(cache=True)(function)
        return cast(F, made)
    finally:
        settings.CACHE_DIR = before
