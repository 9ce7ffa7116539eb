"""The families of models: one module each, imported when it is asked for, since its library is heavy."""

from __future__ import annotations

from importlib import import_module

from forewarn.errors import MissingExtraError, UsageError
from forewarn.learn.families.base import Family
from forewarn.learn.lean import lean_import

FAMILIES = ("xgboost", "lightgbm", "catboost", "forest")  # what a search chooses from
_ALL = (*FAMILIES, "online", "rule")
_NEEDS = {"catboost": ("pandas", "pyarrow")}


def family(name: str, *, lean: bool = False) -> Family:
    """The family of that name; `lean`, its library is imported sooner, for one who only serves.

    >>> family("online").name
    'online'
    """
    if name not in _ALL:
        raise UsageError(f"no model family {name!r}; there are {', '.join(_ALL)}")
    try:
        module = f"{__name__}.{name}"
        found: Family = (lean_import(module, _NEEDS.get(name, ())) if lean else import_module(module)).FAMILY
    except (ImportError, OSError) as error:  # OSError: the library is there, but not what it is linked to
        raise MissingExtraError(
            f"the model family {name} needs a library that cannot be loaded ({error}): "
            "pip install 'forewarn[train]'"
        ) from error
    return found
