"""The location of an embedded store: files in the home."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from forewarn.config import Config
from forewarn.errors import OldStoreError
from forewarn.store.base import Store
from forewarn.store.database import leave_readable
from forewarn.store.embedded import FILE, EmbeddedStore, open_embedded
from forewarn.store.filesystem import refuse_unfit
from forewarn.store.location import StoreLocation
from forewarn.store.people import PeopleStore
from forewarn.store.people_embedded import open_embedded_people, people_files
from forewarn.store.read_only_file import may_write


class EmbeddedLocation(StoreLocation):
    """A folder on a local disk."""

    @property
    def _file(self) -> Path:
        return self.config.home / FILE

    @property
    def exists(self) -> bool:
        """Whether the file exists."""
        return self._file.exists()

    @property
    def may_write(self) -> bool:
        """Whether the modes of the folder and the file let this user write."""
        return may_write(self._file)

    def check(self) -> None:
        """Check the file system, and open the store if there is one."""
        refuse_unfit(self.config.home)
        if self.exists:
            self.open().close()

    def open(self, *, read_only: bool = False) -> Store:
        """Open the store in the home; whoever may write migrates one of an older version."""
        try:
            return open_embedded(self.config.home, read_only=read_only, known_delay=self.config.known_delay)
        except OldStoreError:
            if not self.may_write:
                raise
        self.open().close()
        return self.open(read_only=True)

    def open_people(self) -> PeopleStore:
        """Open the file of people's entries."""
        return open_embedded_people(self.config.home)

    @contextmanager
    def private_copy(self, store: Store) -> Iterator[Config]:
        """Copy the store's file to a temporary home."""
        assert isinstance(store, EmbeddedStore)
        with TemporaryDirectory(prefix="forewarn-") as folder:
            store.copy_to(Path(folder, FILE))
            yield dataclasses.replace(self.config, home=Path(folder))

    @property
    def secret_files(self) -> Collection[Path]:
        """The file of people's entries, and SQLite's files beside it."""
        return people_files(self.config.home)

    def let_group_read(self) -> None:
        """Leave the files that SQLite needs beside a file that is only read."""
        leave_readable(self._file)
