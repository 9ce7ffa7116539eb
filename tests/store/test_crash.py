"""A crash loses no acknowledged write and leaves nothing torn. The long form: ``make soak``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.store import crash

pytestmark = pytest.mark.slow


def test_a_killed_writer_loses_nothing(tmp_path: Path) -> None:
    assert crash.run(tmp_path, kills=8) >= 8
