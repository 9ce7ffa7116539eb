"""The location of a configured store: what can be asked and done before it is open."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from forewarn.config import Config
from forewarn.progress import ShowProgress
from forewarn.store.base import Store
from forewarn.store.people import PeopleStore


@dataclass(frozen=True, slots=True)
class StoreVersion:
    """The version of a part of a store, and the one that this program needs."""

    found: int
    needed: int

    @property
    def is_current(self) -> bool:
        """Whether no migration is needed."""
        return self.found == self.needed


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
    def has_people(self) -> bool:
        """Whether people's entries exist there already."""

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

    @abstractmethod
    def versions(self) -> dict[str, StoreVersion]:
        """Return the version of each part that exists, and the one that this program needs; migrate nothing.

        Raises `StoreError` if a part is not Forewarn's, or of a newer version.
        """

    @abstractmethod
    def copy_parts(self, folder: Path, watch: ShowProgress) -> None:
        """Write all that is stored, each part as it is at one moment, as files into a folder.

        Others may write meanwhile. Any version is copied, as it is.
        """

    @abstractmethod
    def check_parts(self, folder: Path) -> dict[str, StoreVersion]:
        """Check the files that `copy_parts` wrote, all of their content, and return their versions.

        Raises `StoreError` if they are damaged, or of a newer version.
        """

    @abstractmethod
    def holders(self) -> list[str]:
        """Return the claims that processes hold now (``collect alps``): these use the store for long."""

    @property
    @abstractmethod
    def secret_files(self) -> Collection[Path]:
        """Files in the home that a group it is shared with must not read, whether or not they exist."""

    @abstractmethod
    def let_group_read(self) -> None:
        """Leave the files that the group which the home was just shared with needs to read the store."""
