"""A real Slurm for tests: one lab of each version, booted once a session.

Without root or the packages these tests are skipped, with the reason; with FOREWARN_REQUIRE_LAB=1, which
`.ci/run` sets, they fail.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.cluster import Lab, start_lab
from lab.endings import Ending, run_every_ending
from lab.errors import LabMissingError
from lab.versions import VERSIONS


# The first test may have to build a tree; the endings take two minutes, more on a busy machine.
@pytest.fixture(
    scope="session",
    params=[
        pytest.param(
            version,
            marks=[pytest.mark.lab, pytest.mark.xdist_group(f"lab-{version}"), pytest.mark.timeout(600)],
        )
        for version in VERSIONS
    ],
)
def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab that is up; xdist keeps its tests in one worker. They leave every daemon and node in service."""
    state = tmp_path_factory.mktemp("lab")
    running = boot(request.param, state)
    yield running
    running.down()
    shutil.rmtree(state)


@pytest.fixture(scope="session")
def endings(lab: Lab) -> dict[str, Ending]:
    """A job of every ending, submitted once a session: two minutes."""
    return {ending.name: ending for ending in run_every_ending(lab)}


def boot(version: str, state: Path) -> Lab:
    """Start a lab that ends with this process, or skip the test, or fail it where a lab is required."""
    try:
        return start_lab(version, state, dies_with_me=True)
    except LabMissingError as error:
        if os.environ.get("FOREWARN_REQUIRE_LAB") == "1":
            pytest.fail(f"a lab is required here: {error}")
        pytest.skip(str(error))
