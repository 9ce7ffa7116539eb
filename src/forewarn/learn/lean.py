"""Importing a library without what it would only like to have.

LightGBM and XGBoost look for scikit-learn, pandas, Dask and Matplotlib when they are imported, to offer
wrappers that Forewarn never uses. Finding them costs most of a second each, of a command that a person waits
for.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType

WRAPPERS = ("sklearn", "pandas", "dask", "distributed", "matplotlib", "graphviz", "pyarrow", "cudf", "plotly")


def lean_import(module: str, needs: tuple[str, ...] = ()) -> ModuleType:
    """Import a module of ours around such a library, which needs some of the packages nevertheless.

    For a process that serves. One that learns imports them as they are: XGBoost, told to take one thread,
    took a second one too (half of a fit's time) where scikit-learn had not been loaded before it.
    """
    with without(*(name for name in WRAPPERS if name not in needs)):
        return import_module(module)


@contextmanager
def without(*names: str) -> Iterator[None]:
    """While it lasts, these packages seem not to be installed, unless they are loaded already.

    >>> with without("wave"):
    ...     try: import wave
    ...     except ImportError as error: print(error)
    import of wave halted; None in sys.modules
    >>> import wave
    """
    hidden = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # None: Python's own way to say so
    try:
        yield
    finally:
        for name in hidden:
            if sys.modules.get(name) is None:
                sys.modules.pop(name, None)
