"""Opening the store that the configuration names: the one way in, for every caller.

    with open_store(config, read_only=True) as store: ...

A temporary store is one of another home: ``open_store(dataclasses.replace(config, home=folder))``. A new kind
of store is one more line in `_kind`: docs/adding-a-store.md.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import AbstractContextManager
from pathlib import Path

from forewarn.config import Config
from forewarn.errors import UsageError
from forewarn.store.base import Store
from forewarn.store.kinds import StoreKind
from forewarn.store.people import PeopleStore


def open_store(config: Config, *, read_only: bool = False) -> Store:
    """Open the store; unless it is only read, make it where it is not there."""
    return _kind(config).open(config, read_only=read_only)


def open_people_store(config: Config) -> PeopleStore:
    """Open what people have set and done (thresholds, audit lines, feedback, sessions), kept apart."""
    return _kind(config).open_people(config)


def store_exists(config: Config) -> bool:
    """Tell whether there is a store already."""
    return _kind(config).exists(config)


def may_write(config: Config) -> bool:
    """Tell whether this user may write to the store, or make it."""
    return _kind(config).may_write(config)


def check_store(config: Config) -> None:
    """Raise `StoreError` where a store could not be written, and say why; nothing is made."""
    _kind(config).check(config)


def private_copy(config: Config, store: Store) -> AbstractContextManager[Config]:
    """Copy the open store for somebody who may only read it; the copy's configuration, for the block."""
    return _kind(config).private_copy(config, store)


def secret_files(config: Config) -> Collection[Path]:
    """Files in the home that a group which it is shared with may not read, be they there or not."""
    return _kind(config).secret_files(config)


def let_group_read(config: Config) -> None:
    """Leave what the group that the home was just shared with needs to read the store."""
    _kind(config).let_group_read(config)


def _kind(config: Config) -> StoreKind:
    if config.store == "embedded":
        from forewarn.store.embedded_kind import EmbeddedKind  # what a kind needs is loaded with it

        return EmbeddedKind()
    raise UsageError(f"store: no kind of store {config.store!r}; there is embedded")
