"""The shared libraries inside the Python packages of XGBoost and LightGBM, opened without the packages.

The packages import scikit-learn, pandas and SciPy for wrappers that a prediction never needs: most of a
second each, in a command that a person waits for. The predictions are computed by the shared library in the
package, whose C interface is public, documented and stable within a major version.
"""

from __future__ import annotations

from collections.abc import Callable
from ctypes import CDLL
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

from forewarn.errors import MissingExtraError

Library = TypeVar("Library", bound=CDLL)


class LibraryError(Exception):
    """A refused call of a native library, or an unreadable native file; the message is the library's own."""


def library_path(package: str) -> Path:
    """Find the shared library of an installed package. Raises `MissingExtraError` if it is not installed."""
    spec = find_spec(package)
    for folder in (spec and spec.submodule_search_locations) or ():
        for path in sorted(Path(folder, "lib").glob(f"lib*{package}.*")):
            return path
    raise MissingExtraError(_needs(package, "it is not installed"))


def open_library(package: str, library_type: Callable[[str], Library]) -> Library:
    """Open the shared library of a package by `ctypes.CDLL` or `ctypes.PyDLL`."""
    path = library_path(package)
    try:
        return library_type(str(path))
    except OSError as error:  # a library that it is linked to is missing
        raise MissingExtraError(_needs(package, str(error))) from error


def import_package(package: str) -> None:
    """Import a package that fits models. Raises `MissingExtraError` if it cannot be imported."""
    try:
        import_module(package)
    except (ImportError, OSError) as error:
        raise MissingExtraError(_needs(package, str(error))) from error


def _needs(package: str, why: str) -> str:
    return f"this model needs {package}, which cannot be loaded ({why}): pip install 'forewarn[train]'"
