"""What can be told and done of a configured store before it is open."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from contextlib import AbstractContextManager
from pathlib import Path

from forewarn.config import Config
from forewarn.store.base import Store
from forewarn.store.people import PeopleStore


class StoreLocation(ABC):
    """Where the configuration says that the store is: a subclass for each kind of store."""

    def __init__(self, config: Config) -> None:
        self.config = config

    @property
    @abstractmethod
    def exists(self) -> bool:
        """Whether there is a store already."""

    @property
    @abstractmethod
    def may_write(self) -> bool:
        """Whether this user may write to the store, or make it."""

    @abstractmethod
    def check(self) -> None:
        """Raise `StoreError` where a store could not be written, and say why; nothing is made."""

    @abstractmethod
    def open(self, *, read_only: bool = False) -> Store:
        """Open the store; unless it is only read, make it where it is not there. `StoreError` otherwise."""

    @abstractmethod
    def open_people(self) -> PeopleStore:
        """Open what people have set and done; make it where it is not there."""

    @abstractmethod
    def private_copy(self, store: Store) -> AbstractContextManager[Config]:
        """Copy the open store for somebody who may only read it, to be written to by nobody else.

        What is given is the configuration that names the copy, which is gone at the end of the block.
        """

    @property
    @abstractmethod
    def secret_files(self) -> Collection[Path]:
        """Files in the home that a group which it is shared with may not read, be they there or not."""

    @abstractmethod
    def let_group_read(self) -> None:
        """Leave what the group that the home was just shared with needs to read the store."""
