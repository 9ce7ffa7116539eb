"""What docs/compatibility.md says of versions and formats is what the code has."""

from __future__ import annotations

import re
import tomllib

from forewarn.assess.assessment import SCHEMA_VERSION
from forewarn.features.state_store import VERSION as ONLINE_STATE
from forewarn.learn.registry.manifest import FORMAT
from forewarn.learn.report import FORMAT as REPORT_FORMAT
from forewarn.store.people_embedded import PEOPLE_MIGRATIONS
from forewarn.store.schema import MIGRATIONS
from lab.versions import VERSIONS
from tests.release.conftest import ROOT
from tests.release.test_newer_python import PYTHONS

PAGE = (ROOT / "docs/compatibility.md").read_text()


def row(first: str) -> list[str]:
    """The cells of the table row whose first cell begins so."""
    (line,) = re.findall(rf"^\| ({re.escape(first)}.*) \|$", PAGE, re.MULTILINE)
    return [cell.strip() for cell in line.split("|")]


def test_versions_of_files() -> None:
    assert row("store, ")[1] == f"{len(MIGRATIONS)} (SQLite's `user_version`)"
    assert row("thresholds, ")[1] == f"{len(PEOPLE_MIGRATIONS)} (the same)"
    assert row("online state")[1] == str(ONLINE_STATE)
    assert row("kept assessments")[1] == f"`schema_version` {SCHEMA_VERSION}"
    assert row("bundle, ")[1] == f"`format` {FORMAT}"
    assert row("report of a training")[1] == f"`format` {REPORT_FORMAT}"
    assert f"`schema_version` {SCHEMA_VERSION};" in row("assessments")[1]


def test_every_version_of_the_store_has_a_row() -> None:
    _, _, section = PAGE.partition("### The store")
    rows = re.findall(r"^\| (\d+) \|", section, re.MULTILINE)
    assert rows == [str(number + 1) for number in range(len(MIGRATIONS))]


def test_every_slurm_of_the_lab_has_a_row() -> None:
    rows = re.findall(r"^\| (\d\d\.\d\d) \|.*\(.*Debian (\w+)\)", PAGE, re.MULTILINE)
    assert rows == [(version.name, version.suite) for version in VERSIONS.values()]


def test_classifiers_name_the_tested_pythons() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    prefix = "Programming Language :: Python :: "
    named = [text.removeprefix(prefix) for text in project["classifiers"] if text.startswith(prefix)]
    tested = [str(parameter.values[1]) for parameter in PYTHONS]
    assert named == ["3.11", *tested]
    assert all(row(python)[1] == "yes" for python in named)
    assert project["requires-python"] == ">=3.11"
