"""The model families, one module each; a module is imported when its family is first used."""

from __future__ import annotations

from importlib import import_module

from forewarn.errors import UsageError
from forewarn.learn.families.base import ModelFamily

FAMILIES = ("xgboost", "lightgbm", "catboost", "forest")  # what a search chooses from
_ALL = (*FAMILIES, "online", "rule")


def family(name: str) -> ModelFamily:
    """Return a family by its name. The library that fits its models is imported by its first fit.

    >>> family("online").name
    'online'
    """
    if name not in _ALL:
        raise UsageError(f"no model family {name!r}; choose from {', '.join(_ALL)}")
    result: ModelFamily = import_module(f"{__name__}.{name}").FAMILY
    return result
