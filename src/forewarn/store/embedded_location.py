"""The location of an embedded store: files in the home."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from forewarn.config import Config
from forewarn.errors import OldStoreError
from forewarn.files import write_file
from forewarn.progress import ShowProgress
from forewarn.store.base import Store
from forewarn.store.claims import held_claims
from forewarn.store.database import connect, leave_readable, store_errors
from forewarn.store.database_files import check_database, copy_database
from forewarn.store.embedded import FILE, EmbeddedStore, open_embedded
from forewarn.store.filesystem import refuse_unfit
from forewarn.store.location import StoreLocation, StoreVersion
from forewarn.store.people import PeopleStore
from forewarn.store.people_embedded import FILE as PEOPLE_FILE
from forewarn.store.people_embedded import PEOPLE_MIGRATIONS, open_embedded_people, people_files
from forewarn.store.read_only_file import may_write
from forewarn.store.schema import MIGRATIONS, store_version
from forewarn.store.sqlite_segments import check_segments
from forewarn.store.writer import ERASURE_KEY

_PARTS = {FILE: MIGRATIONS, PEOPLE_FILE: PEOPLE_MIGRATIONS}


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
    def has_people(self) -> bool:
        """Whether the file of people's entries exists."""
        return (self.config.home / PEOPLE_FILE).exists()

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

    def versions(self) -> dict[str, StoreVersion]:
        """Read the versions of the files."""
        return _versions(self.config.home, is_immutable=False)

    def copy_parts(self, folder: Path, watch: ShowProgress) -> None:
        """Copy the databases, and the key that recognises erased users."""
        home = self.config.home
        for name in _PARTS:
            if (home / name).exists():
                with watch(f"copying {name}") as progress:
                    copy_database(home / name, folder / name, progress)
        if (home / ERASURE_KEY).exists():
            write_file(folder / ERASURE_KEY, (home / ERASURE_KEY).read_bytes(), private=True)

    def check_parts(self, folder: Path) -> dict[str, StoreVersion]:
        """Check the databases, and the checksum of every segment."""
        for name in _PARTS:
            if (folder / name).exists():
                check_database(folder / name)
        found = _versions(folder, is_immutable=True)
        if FILE in found:
            path = folder / FILE
            with (
                store_errors(path),
                closing(connect(path, read_only=True, busy_seconds=0, is_immutable=True)) as connection,
            ):
                check_segments(connection)
        return found

    def holders(self) -> list[str]:
        """Try the lock of each claim."""
        return held_claims(self.config.home)

    @property
    def secret_files(self) -> Collection[Path]:
        """The file of people's entries, SQLite's files beside it, and the key of erased users' names."""
        return (*people_files(self.config.home), self.config.home / ERASURE_KEY)

    def let_group_read(self) -> None:
        """Leave the files that SQLite needs beside a file that is only read."""
        leave_readable(self._file)


def _versions(home: Path, *, is_immutable: bool) -> dict[str, StoreVersion]:
    found = {}
    for name, migrations in _PARTS.items():
        path = home / name
        if not path.exists():
            continue
        with (
            store_errors(path),
            closing(connect(path, read_only=True, busy_seconds=30, is_immutable=is_immutable)) as connection,
        ):
            version = store_version(connection, str(path), len(migrations))
        found[name] = StoreVersion(version, len(migrations))
    return found
