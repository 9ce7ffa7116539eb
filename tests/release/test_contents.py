"""What is in the wheel and in the source archive."""

from __future__ import annotations

import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import forewarn
from tests.release.conftest import ROOT, Distribution

pytestmark = [pytest.mark.release, pytest.mark.xdist_group("release")]

PACKAGE = ROOT / "src/forewarn"
SHIPPED = {".css", ".j2", ".py", ".toml", ".typed"}
REPOSITORY = {
    *("bench", "docs", "lab", "man", "packaging", "requirements", "src", "tests", "tools"),
    *("CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "MANIFEST.in", "Makefile", "README.md", "pyproject.toml"),
}


@pytest.fixture(scope="module")
def metadata(distribution: Distribution) -> dict[str, list[str]]:
    with zipfile.ZipFile(distribution.wheel) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        message = Parser().parsestr(wheel.read(name).decode())
    return {key: message.get_all(key, []) for key in message.keys()}  # noqa: SIM118  # not a dict


def test_the_version_is_that_of_the_package(
    distribution: Distribution, metadata: dict[str, list[str]]
) -> None:
    assert metadata["Version"] == [forewarn.__version__]
    assert distribution.wheel.name == f"forewarn-{forewarn.__version__}-py3-none-any.whl"
    assert distribution.source_archive.name == f"forewarn-{forewarn.__version__}.tar.gz"


def test_the_changelog_has_the_version() -> None:
    assert f"\n## {forewarn.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_the_wheel_has_the_package_and_nothing_else(distribution: Distribution) -> None:
    info = f"forewarn-{forewarn.__version__}.dist-info"
    files = {path for path in PACKAGE.rglob("*") if path.suffix in SHIPPED}
    expected = {f"forewarn/{path.relative_to(PACKAGE)}" for path in files}
    assert {"forewarn/py.typed", "forewarn/sources/simulator/scenarios/small.toml"} <= expected
    with zipfile.ZipFile(distribution.wheel) as wheel:
        names = set(wheel.namelist())
        licence = wheel.read(f"{info}/licenses/LICENSE")
    assert {name for name in names if not name.startswith(info)} == expected
    assert licence == (ROOT / "LICENSE").read_bytes()


def test_the_wheel_says_what_it_runs_on(metadata: dict[str, list[str]]) -> None:
    assert metadata["Requires-Python"] == [">=3.11"]
    assert set(metadata["Provides-Extra"]) == {"train", "serve", "bench", "test"}
    assert metadata["License-Expression"] == ["Apache-2.0"]


def test_the_source_archive_is_the_repository(distribution: Distribution) -> None:
    with tarfile.open(distribution.source_archive) as archive:
        paths = {Path(entry.name) for entry in archive if entry.isfile()}
    names = {path.relative_to(path.parts[0]) for path in paths}
    assert {name.parts[0] for name in names} == REPOSITORY | {"PKG-INFO", "setup.cfg"}
    here = Path(__file__).relative_to(ROOT)
    assert {here, here.parent / "enter_tree.sh", Path("lab/holder.sh"), Path("man/forewarn-serve.1")} <= names
    assert not [name for name in names if name.suffix == ".pyc" or "__pycache__" in name.parts]
