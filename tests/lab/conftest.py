"""A real Slurm for tests: one lab of each version, booted once a session.

Without root or the packages these tests are skipped, with the reason; with FOREWARN_REQUIRE_LAB=1, which
`.ci/run` sets, they fail.

A dozen real daemons share two cores with the rest of the suite, and Slurm has time limits of its own. So a
lab test that fails is run once more, and one that passes only then is named, with its failure, at the end.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol

from lab.cluster import Lab, start_lab
from lab.endings import Ending, run_every_ending
from lab.errors import LabError, LabMissingError
from lab.jobs import wait_quiet
from lab.versions import DEFAULT, VERSIONS
from tests.lab.required import skip_unless_required
from tests.lab.site import Site

# The first test may have to build a tree; the endings take two minutes, more on a busy machine.
LABS = {
    version: pytest.param(
        version,
        marks=[pytest.mark.lab, pytest.mark.xdist_group(f"lab-{version}"), pytest.mark.timeout(600)],
    )
    for version in VERSIONS
}
# For what no version does otherwise.
one_version = pytest.mark.parametrize("lab", [LABS[DEFAULT]], indirect=True, scope="session")

_UP: list[Lab] = []  # the labs of this worker's tests


@pytest.fixture(scope="session", params=list(LABS.values()))
def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab that is up; xdist keeps its tests in one worker. They leave every daemon and node in service."""
    state = tmp_path_factory.mktemp("lab")
    running = boot(request.param, state)
    _UP.append(running)
    yield running
    _UP.remove(running)
    running.down()
    shutil.rmtree(state)


@pytest.fixture(scope="session")
def endings(lab: Lab) -> dict[str, Ending]:
    """A job of every ending, submitted once a session: two minutes."""
    return {ending.name: ending for ending in run_every_ending(lab)}


def boot(version: str, state: Path, *, accounting: bool = True) -> Lab:
    """Start a lab that ends with this process, or skip the test, or fail it where a lab is required."""
    try:
        return start_lab(version, state, dies_with_me=True, accounting=accounting)
    except LabMissingError as error:
        skip_unless_required(error)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a lab test, and once more if it fails."""
    if item.get_closest_marker("lab") is None:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, nextitem=nextitem, log=False)
    failed = [report for report in reports if report.failed]
    if failed:
        _end_what_runs()
        item._initrequest()  # type: ignore[attr-defined]
        item.user_properties.append(("first failure", failed[0].longreprtext))
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def _end_what_runs() -> None:
    """Let what a failed test had running end first: its second run must not find it."""
    for lab in _UP:
        lab.try_run("root", "scancel", "--state=RUNNING")
        with suppress(LabError):
            wait_quiet(lab)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name what passed only the second time."""
    for report in terminalreporter.getreports("passed"):
        for name, text in report.user_properties if report.when == "call" else ():
            if name == "first failure":
                terminalreporter.section(f"passed the second time only: {report.nodeid}")
                terminalreporter.write_line(text[-3000:])


@pytest.fixture
def site(lab: Lab, registry_template: Path, tmp_path: Path) -> Site:
    """Somebody who runs Forewarn beside the lab, with a registry that needs not be made."""
    models = tmp_path / "home" / "models"
    models.mkdir(parents=True)
    (models / registry_template.name).write_bytes(registry_template.read_bytes())
    return Site(lab, tmp_path / "home")
