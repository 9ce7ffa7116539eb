"""The location of a configured store: what can be asked and done before it is open."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from contextlib import AbstractContextManager
from pathlib import Path

from forewarn.config import Config
from forewarn.store.base import Store
from forewarn.store.people import PeopleStore


class StoreLocation(ABC):
    """The location that the configuration names: one subclass for each type of store."""

    def __init__(self, config: Config) -> None:
        self.config = config

    @property
    @abstractmethod
    def exists(self) -> bool:
        """Whether a store exists there already."""

    @property
    @abstractmethod
    def may_write(self) -> bool:
        """Whether this user may write to the store, or create it."""

    @abstractmethod
    def check(self) -> None:
        """Raise `StoreError` with the reason if a store could not be written; create nothing."""

    @abstractmethod
    def open(self, *, read_only: bool = False) -> Store:
        """Open the store; unless read-only, create it if absent. Raises `StoreError`."""

    @abstractmethod
    def open_people(self) -> PeopleStore:
        """Open the store of people's entries; create it if absent."""

    @abstractmethod
    def private_copy(self, store: Store) -> AbstractContextManager[Config]:
        """Copy the open store for a user who may only read it; nobody else writes to the copy.

        What is given is the configuration that names the copy, which is gone at the end of the block.
        """

    @property
    @abstractmethod
    def secret_files(self) -> Collection[Path]:
        """Files in the home that a group it is shared with must not read, whether or not they exist."""

    @abstractmethod
    def let_group_read(self) -> None:
        """Leave the files that the group which the home was just shared with needs to read the store."""
