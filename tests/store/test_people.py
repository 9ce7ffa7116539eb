"""What people set and do is kept apart: its owner's alone, and behind no write of history."""

from __future__ import annotations

import grp
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from forewarn.config import Config
from forewarn.errors import StoreError, UnfitFileSystemError
from forewarn.sharing import share
from forewarn.store.filesystem import refuse_unfit
from forewarn.store.opening import location_of, open_people_store, open_store
from forewarn.store.people import PeopleStore
from tests.store.people_contract import PeopleContract
from tests.store.test_processes import HOLD, end, start
from tests.store.test_sharing import MEMBERS
from tests.store.test_trouble import MOUNTS


class TestEmbeddedPeople(PeopleContract):
    @contextmanager
    def fresh(self) -> Iterator[PeopleStore]:
        with TemporaryDirectory() as home, open_people_store(Config(home=Path(home))) as people:
            yield people


ADD = """
import sys
from pathlib import Path
from forewarn.config import Config
from forewarn.store.opening import open_people_store

with open_people_store(Config(home=Path(sys.argv[1]))) as people:
    for n in range(100):
        people.add("audit", {"by": sys.argv[2], "n": n}, at=n)
"""


@pytest.mark.slow
def test_several_processes_write_at_once(tmp_path: Path) -> None:
    writers = [start(ADD, tmp_path, n) for n in range(3)]
    assert [end(writer) for writer in writers] == [""] * 3
    with open_people_store(Config(home=tmp_path)) as people:
        found = [(entry.value["by"], entry.value["n"]) for entry in people.entries("audit")]
    assert sorted(found) == sorted((str(by), n) for by in range(3) for n in range(100))


def test_a_write_of_observations_elsewhere_is_not_waited_for(tmp_path: Path) -> None:
    writer = start(HOLD, tmp_path)  # holds on to its write until it is told to end
    assert writer.stdout is not None
    assert writer.stdout.readline() == "holding\n"
    began = time.monotonic()
    with open_people_store(Config(home=tmp_path)) as people:
        people.put("threshold", "alps", {"value": 0.5}, at=1)
        key = people.add("session", {}, at=1)
        assert people.remove("session", key)
        assert people.entries("threshold")[0].value == {"value": 0.5}
    assert time.monotonic() - began < 10, "it waited: a busy store gives up after 30 s"
    end(writer)


def test_it_is_the_owners_alone_also_where_the_home_is_shared(tmp_path: Path) -> None:
    config = Config(home=tmp_path / "home")
    before = os.umask(0o000)
    try:
        open_store(config).close()
        with open_people_store(config) as people:
            people.add("session", {}, at=1)
            share(config.home, grp.getgrgid(MEMBERS).gr_name, but=location_of(config).secret_files)
            people.add("session", {}, at=2)
            files = [file for file in location_of(config).secret_files if file.exists()]
            assert len(files) == 3
            assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
            assert stat.S_IMODE((config.home / "forewarn.db").stat().st_mode) == 0o640
    finally:
        os.umask(before)


def test_what_is_no_place_for_it(tmp_path: Path) -> None:
    (tmp_path / "people.db").write_bytes(b"something else " * 1000)
    with pytest.raises(StoreError, match=r"people\.db"):
        open_people_store(Config(home=tmp_path))
    with pytest.raises(UnfitFileSystemError):
        refuse_unfit(Path("/scratch/ann"), MOUNTS)
