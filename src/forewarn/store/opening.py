"""Opening the store that the configuration names: the one way in, for every caller.

    with open_store(config, read_only=True) as store: ...

A temporary store is one of another home: ``open_store(dataclasses.replace(config, home=folder))``. A new kind
of store is one more line in `place_of`: docs/adding-a-store.md.
"""

from __future__ import annotations

from forewarn.config import Config
from forewarn.errors import UsageError
from forewarn.store.base import Store
from forewarn.store.location import StoreLocation
from forewarn.store.people import PeopleStore


def open_store(config: Config, *, read_only: bool = False) -> Store:
    """Open the store; unless it is only read, make it where it is not there."""
    return place_of(config).open(read_only=read_only)


def open_people_store(config: Config) -> PeopleStore:
    """Open what people have set and done (thresholds, audit lines, feedback, sessions), kept apart."""
    return place_of(config).open_people()


def place_of(config: Config) -> StoreLocation:
    """What can be told and done of the store before it is open; `UsageError` of a kind that there is not."""
    if config.store == "embedded":
        from forewarn.store.embedded_location import EmbeddedLocation  # what a kind needs is loaded with it

        return EmbeddedLocation(config)
    raise UsageError(f"store: no kind of store {config.store!r}; there is embedded")
