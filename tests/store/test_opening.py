"""One way to open a store, and what can be asked before."""

from __future__ import annotations

from pathlib import Path

import pytest

from forewarn.config import Config, resolve
from forewarn.errors import StoreError, UsageError
from forewarn.store.opening import location_of, open_store
from tests.store.contract import write
from tests.store.samples import row


def test_the_configured_store(tmp_path: Path) -> None:
    config = Config(home=tmp_path / "home", known_delay=5)
    place = location_of(config)
    assert not place.exists
    place.check()
    assert not config.home.exists(), "nothing is made by asking"
    with open_store(config) as store:
        write(store, row(end=200, outcome="failed", reconstructed=True))
        assert next(store.scan(columns=["known_at"])).item() == 205
        assert (store.may_write, store.allows_many_writers) == (True, False)
    assert place.exists
    assert place.may_write
    place.check()
    with open_store(config, read_only=True) as store:
        assert not store.may_write
        with pytest.raises(StoreError, match="reading only"):
            store.claim("state c")
        with place.private_copy(store) as own, open_store(own) as copy:
            assert own.home != config.home
            write(copy, row("2"))
            assert (copy.count(), store.count()) == (2, 1)
    assert not own.home.exists()


def test_an_unknown_kind_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no kind of store 'mongodb'; choose from embedded"):
        open_store(Config(home=tmp_path, store="mongodb"))
    with pytest.raises(UsageError, match="'mongodb' is not one of embedded"):
        resolve(environ={"FOREWARN_STORE": "mongodb"})


def test_days_for_which_assessments_are_kept() -> None:
    assert resolve(environ={}).config.assessments_kept == 400
    assert resolve(environ={"FOREWARN_ASSESSMENTS_KEPT": "30"}).config.assessments_kept == 30
    for wrong in ("0", "-1", "many"):
        with pytest.raises(UsageError, match=r"assessments_kept.*days"):
            resolve(environ={"FOREWARN_ASSESSMENTS_KEPT": wrong})
