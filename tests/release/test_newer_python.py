"""The wheel under the Python of newer Debian releases, in the trees of the labs."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.errors import LabMissingError
from lab.needs import check_machine
from lab.trees import ensure_tree
from lab.versions import VERSIONS
from tests.lab.required import skip_unless_required
from tests.release.conftest import Distribution
from tests.release.environments import Tree
from tests.release.story import simulate, try_core, try_without_train

PYTHONS = [
    # The worker that has the lab of the same tree: nobody waits for the tree to be built.
    pytest.param(slurm, python, marks=pytest.mark.xdist_group(f"lab-{slurm}"), id=python)
    for slurm, python in (("24.11", "3.13"), ("26.05", "3.14"))
]


@pytest.mark.release
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("slurm", "python"), PYTHONS)
def test_core(slurm: str, python: str, distribution: Distribution, constraints: Path, folder: Path) -> None:
    try:
        check_machine()
        tree = ensure_tree(VERSIONS[slurm], print)
    except LabMissingError as error:
        skip_unless_required(error)
    inside = folder / python
    inside.mkdir()
    (inside / distribution.wheel.name).write_bytes(distribution.wheel.read_bytes())
    environment = Tree(tree, inside, constraints)
    assert environment.run("python", "--version").stdout.startswith(f"Python {python}.")
    environment.install(f"/srv/{distribution.wheel.name}")
    simulate(environment)
    try_core(environment)
    try_without_train(environment)
