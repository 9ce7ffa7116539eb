"""The wheel and the source archive, built once a session by the command that `make dist` runs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Distribution:
    """What `make dist` leaves in dist/."""

    wheel: Path
    source_archive: Path


@pytest.fixture(scope="session")
def distribution(tmp_path_factory: pytest.TempPathFactory) -> Distribution:
    """Build the source archive from the repository, and the wheel from the source archive."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    (wheel,) = folder.glob("*.whl")
    (source_archive,) = folder.glob("*.tar.gz")
    return Distribution(wheel, source_archive)


@pytest.fixture(scope="session")
def constraints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The versions of the lock, without hashes: pip cannot hash the wheel that was built just now."""
    lines = (ROOT / "requirements/test.txt").read_text().splitlines()
    pins = [line.rstrip(" \\") for line in lines if line and line[0] not in " #"]
    file = tmp_path_factory.mktemp("constraints") / "constraints.txt"
    file.write_text("\n".join(pins) + "\n")
    return file


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder outside the repository, removed afterwards: environments take up to 1.6 GB each."""
    path = tmp_path_factory.mktemp("installed")
    yield path
    shutil.rmtree(path)
