"""Opening of the store that the configuration names: the one way in for every caller.

    with open_store(config, read_only=True) as store: ...

A temporary store is one of another home: ``open_store(dataclasses.replace(config, home=folder))``. A new kind
of store is one more line in `location_of`: docs/adding-a-store.md.
"""

from __future__ import annotations

from forewarn.config import Config
from forewarn.errors import UsageError
from forewarn.store.base import Store
from forewarn.store.location import StoreLocation
from forewarn.store.people import PeopleStore


def open_store(config: Config, *, read_only: bool = False) -> Store:
    """Open the store; unless read-only, create it if absent."""
    return location_of(config).open(read_only=read_only)


def open_people_store(config: Config) -> PeopleStore:
    """Open the store of what people set and did: thresholds, audit lines, feedback, sessions."""
    return location_of(config).open_people()


def location_of(config: Config) -> StoreLocation:
    """Return the location of the configured store; `UsageError` if its type is unknown."""
    if config.store == "embedded":
        from forewarn.store.embedded_location import EmbeddedLocation  # what a kind needs is loaded with it

        return EmbeddedLocation(config)
    raise UsageError(f"store: no kind of store {config.store!r}; choose from embedded")
