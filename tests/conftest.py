"""Fixtures for every room."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from hypothesis import settings

from tests.scheduling import pytest_collection_modifyitems, pytest_xdist_make_scheduler

__all__ = ["pytest_collection_modifyitems", "pytest_xdist_make_scheduler"]

# On a busy machine one example can take long: that is no failure of what is tested.
settings.register_profile("forewarn", deadline=None)
settings.load_profile("forewarn")

# As the command line does, before a library is loaded that has threads: two workers of pytest on two cores
# would wait for each other most of the time.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

if "PYTEST_XDIST_WORKER" in os.environ:
    # For the same reason polars has one thread in a worker. Processes that a test starts are as they are.
    os.environ["POLARS_MAX_THREADS"] = "1"
    pl.thread_pool_size()  # reads it
    del os.environ["POLARS_MAX_THREADS"]

# A shell lets what it starts in the background ignore SIGINT, and so would every process of the tests.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The contracts hold the assertions of many tests: let pytest explain theirs too.
pytest.register_assert_rewrite(
    "tests.sources.contract", "tests.store.contract", "tests.learn.families_contract"
)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real logs beside the repository; tests that use it are skipped where it is absent."""
    folder = Path(__file__).resolve().parents[1].parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no real data here: {folder} is absent")
    return folder


@pytest.fixture(scope="session")
def registry_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty registry: MLflow takes many seconds to make its tables, so that is done once."""
    from forewarn.learn.registry.tracking import Tracking, embedded_uri

    database = tmp_path_factory.mktemp("registry") / "mlflow.db"
    Tracking(embedded_uri(database))
    return database


@pytest.fixture
def registry_home(registry_template: Path, tmp_path: Path) -> Path:
    """A home with an empty registry in it, for tests that need no more than that it is there."""
    home = tmp_path / "home"
    (home / "models").mkdir(parents=True)
    shutil.copy(registry_template, home / "models")
    return home


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MB, which is soon full."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(disk)]
    if os.geteuid() != 0 or not shutil.which("mount") or subprocess.run(mount, check=False).returncode:
        pytest.skip("no right to mount a small file system here")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)
