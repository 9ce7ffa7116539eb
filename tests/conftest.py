"""Fixtures for every room."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

# On a busy machine one example can take long: that is no failure of what is tested.
settings.register_profile("forewarn", deadline=None)
settings.load_profile("forewarn")

# The contracts hold the assertions of many tests: let pytest explain theirs too.
pytest.register_assert_rewrite("tests.sources.contract", "tests.store.contract")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real logs beside the repository; tests that use it are skipped where it is absent."""
    folder = Path(__file__).resolve().parents[1].parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no real data here: {folder} is absent")
    return folder
