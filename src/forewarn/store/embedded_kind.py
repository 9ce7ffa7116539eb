"""The embedded store as a kind: all that it keeps are files in the home."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from forewarn.config import Config
from forewarn.store.base import Store
from forewarn.store.database import leave_readable
from forewarn.store.embedded import FILE, EmbeddedStore, open_embedded
from forewarn.store.filesystem import refuse_unfit
from forewarn.store.kinds import StoreKind
from forewarn.store.people import PeopleStore
from forewarn.store.people_embedded import open_embedded_people, people_files
from forewarn.store.readable import may_write


class EmbeddedKind(StoreKind):
    """Stores in files of a local disk."""

    def open(self, config: Config, *, read_only: bool) -> Store:
        """Open the store in the home."""
        return open_embedded(config.home, read_only=read_only, known_delay=config.known_delay)

    def open_people(self, config: Config) -> PeopleStore:
        """Open the file of people's things, beside it."""
        return open_embedded_people(config.home)

    def exists(self, config: Config) -> bool:
        """Tell whether the file is there."""
        return (config.home / FILE).exists()

    def may_write(self, config: Config) -> bool:
        """Tell whether the modes of the folder and the file let this user write."""
        return may_write(config.home / FILE)

    def check(self, config: Config) -> None:
        """Look at the file system, and open the store where there is one."""
        refuse_unfit(config.home)
        if self.exists(config):
            self.open(config, read_only=False).close()

    @contextmanager
    def private_copy(self, config: Config, store: Store) -> Iterator[Config]:
        """Copy the file to a temporary home."""
        assert isinstance(store, EmbeddedStore)
        with TemporaryDirectory(prefix="forewarn-") as folder:
            store.copy_to(Path(folder, FILE))
            yield dataclasses.replace(config, home=Path(folder))

    def secret_files(self, config: Config) -> Collection[Path]:
        """The file of people's things, and those beside it."""
        return people_files(config.home)

    def let_group_read(self, config: Config) -> None:
        """Leave the files that SQLite wants beside one that is only read."""
        leave_readable(config.home / FILE)
