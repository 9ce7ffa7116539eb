"""The wheel in clean virtual environments: the core alone, and with each extra."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.release.conftest import Distribution
from tests.release.environments import Here
from tests.release.story import JOBS, simulate, try_core, try_train, try_without_train

# One worker: the tests of one environment build on each other. The time limit is for a slow index.
pytestmark = [pytest.mark.release, pytest.mark.xdist_group("release"), pytest.mark.timeout(900)]

COUNT_JOBS = """
import adbc_driver_sqlite.dbapi, duckdb, pyarrow
print(duckdb.sql("select count(distinct (job_id, submit)) from 'jobs.parquet'").fetchall()[0][0])
with adbc_driver_sqlite.dbapi.connect() as connection, connection.cursor() as cursor:
    cursor.execute("select 6 * 7")
    print(cursor.fetchone()[0])
"""


@pytest.fixture(scope="module")
def core(distribution: Distribution, constraints: Path, folder: Path) -> Here:
    """An environment with the wheel and what it requires, no extra, and a simulated history."""
    (folder / "core").mkdir()
    environment = Here(folder / "core", constraints)
    environment.install(str(distribution.wheel))
    simulate(environment)
    return environment


def test_core(core: Here) -> None:
    try_core(core)


def test_core_names_the_missing_extra(core: Here) -> None:
    try_without_train(core)


def test_bench(core: Here, distribution: Distribution) -> None:
    core.install(f"{distribution.wheel}[bench]")
    assert core.run("python", "-c", COUNT_JOBS).stdout.split() == [str(JOBS), "42"]


def test_test(core: Here, distribution: Distribution) -> None:
    """The tools of the extra run, on the code as it is installed."""
    core.install(f"{distribution.wheel}[test]")
    doctests = ("--doctest-modules", "--pyargs", "forewarn.job", "-q", "-p", "no:cacheprovider")
    assert " passed" in core.run("pytest", *doctests).stdout.splitlines()[-1]
    for tool in ("mypy", "ruff"):
        core.run(tool, "--version")
    core.run("python", "-c", "import build, hypothesis, importlinter, pytest_timeout, setuptools, xdist")


def test_train(distribution: Distribution, constraints: Path, core: Here, folder: Path) -> None:
    """An environment of its own: nothing of another extra helps."""
    (folder / "train").mkdir()
    environment = Here(folder / "train", constraints)
    environment.install(f"{distribution.wheel}[train]")
    (folder / "train/jobs.parquet").write_bytes((core.folder / "jobs.parquet").read_bytes())
    try_train(environment)
