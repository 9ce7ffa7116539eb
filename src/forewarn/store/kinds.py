"""What a kind of store can tell and do before one of it is open."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from contextlib import AbstractContextManager
from pathlib import Path

from forewarn.config import Config
from forewarn.store.base import Store
from forewarn.store.people import PeopleStore


class StoreKind(ABC):
    """A kind of store, by which the setting `store` names it. Each call opens what it needs and closes it."""

    @abstractmethod
    def open(self, config: Config, *, read_only: bool) -> Store:
        """Open the store, make it where it is not there and may be written to; `StoreError` if it cannot."""

    @abstractmethod
    def open_people(self, config: Config) -> PeopleStore:
        """Open what people have set and done; make it where it is not there."""

    @abstractmethod
    def exists(self, config: Config) -> bool:
        """Tell whether there is a store already."""

    @abstractmethod
    def may_write(self, config: Config) -> bool:
        """Tell whether this user may write to the store, or make it."""

    @abstractmethod
    def check(self, config: Config) -> None:
        """Raise `StoreError` where a store could not be written, and say why; nothing is made."""

    @abstractmethod
    def private_copy(self, config: Config, store: Store) -> AbstractContextManager[Config]:
        """Copy a store for somebody who may only read it, to be written to by nobody else.

        What is given is the configuration that names the copy, which is gone at the end of the block.
        """

    @abstractmethod
    def secret_files(self, config: Config) -> Collection[Path]:
        """Files in the home that a group which it is shared with may not read, be they there or not."""

    @abstractmethod
    def let_group_read(self, config: Config) -> None:
        """Leave what the group that the home was just shared with needs to read the store."""
