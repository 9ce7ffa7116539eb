"""Upgrade of stores of older versions: backed up, migrated, checked, and again without effect."""

from __future__ import annotations

import getpass
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from forewarn.config import Config
from forewarn.errors import StoreBusyError, StoreError, UsageError
from forewarn.operate.access.audit import audit_lines
from forewarn.operate.upkeep.restore import restore
from forewarn.operate.upkeep.upgrade import upgrade
from forewarn.operate.workspace import Workspace
from forewarn.store.claims import claim
from forewarn.store.location import StoreVersion
from forewarn.store.opening import location_of
from forewarn.store.schema import MIGRATIONS
from tests.operate.test_engine import promote
from tests.store.test_migrations import old, version

__all__ = ["old"]
NEEDED = len(MIGRATIONS)


def test_an_old_store_is_saved_migrated_and_checked(old: Path, tmp_path: Path) -> None:
    promote(old, 1)
    config = Config(home=old)
    with Workspace(config) as workspace:
        planned = upgrade(workspace, dry_run=True)
        assert (planned.before, planned.is_needed) == ({"forewarn.db": StoreVersion(2, NEEDED)}, True)
        assert (version(old), planned.backup) == (2, None), "nothing is changed"
    with Workspace(config) as workspace:
        done = upgrade(workspace)
        assert done.after == {"forewarn.db": StoreVersion(NEEDED, NEEDED)}
        assert (done.records["job"], workspace.reading().count()) == (2, 2)
        assert [(one.model, one.problem) for one in done.models] == [("alps.submit.generic", None)]
        assert done.backup is not None
        assert done.backup.parent == old / "backups"
        again = upgrade(workspace)
        assert (again.is_needed, again.backup, again.records) == (False, None, done.records)
    with location_of(config).open_people() as people:
        (line,) = audit_lines(people)  # the second one changed nothing
    assert (line.action, line.user, line.method) == ("store.upgrade", getpass.getuser(), "command")
    assert line.details is not None
    assert (line.details["before"], line.details["after"]) == ({"forewarn.db": 2}, {"forewarn.db": NEEDED})
    assert line.details["backup"] == str(done.backup)
    # The way back: the backup holds the store as it was.
    restore(Config(home=tmp_path / "back"), done.backup)
    assert version(tmp_path / "back") == 2
    with Workspace(Config(home=tmp_path / "back")) as workspace:
        assert upgrade(workspace, with_backup=False).records["job"] == 2


def test_a_process_of_the_old_version_is_stopped_first(old: Path) -> None:
    held = claim(old, "collect c")
    assert held is not None
    with held, Workspace(Config(home=old)) as workspace, pytest.raises(StoreBusyError, match="cluster c"):
        upgrade(workspace)
    assert version(old) == 2


def test_models_that_cannot_serve_are_named(old: Path) -> None:
    promote(old, 1)
    (model,) = (old / "models" / "cache").glob("*/model.json")
    model.write_text(model.read_text() + " ")
    with Workspace(Config(home=old)) as workspace:
        (state,) = upgrade(workspace).models
    assert state.problem is not None


def test_a_store_that_cannot_be_upgraded(old: Path, tmp_path: Path) -> None:
    with Workspace(Config(home=tmp_path / "none")) as workspace, pytest.raises(UsageError, match="no store"):
        upgrade(workspace)
    with closing(sqlite3.connect(old / "forewarn.db")) as connection, connection:
        connection.execute("UPDATE segment SET data = zeroblob(length(data))")
    with Workspace(Config(home=old)) as workspace, pytest.raises(StoreError, match="damaged"):
        upgrade(workspace)
    assert version(old) == 2, "what cannot be saved is not migrated"
    with closing(sqlite3.connect(old / "forewarn.db")) as connection:
        connection.execute("PRAGMA user_version = 999")
    with pytest.raises(StoreError, match="newer"):
        location_of(Config(home=old)).versions()
