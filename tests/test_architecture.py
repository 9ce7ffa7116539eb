"""The order of the rooms, the public face, and starts that stay quick."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import forewarn
from forewarn.serve.cli.main import COMMANDS

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
LEARNERS = ("xgboost", "lightgbm", "catboost", "ray", "mlflow", "sklearn")  # seconds each, of a start


def test_a_room_imports_from_the_rooms_before_it_only() -> None:
    """The contract is in pyproject.toml."""
    result = subprocess.run(
        [BIN / "lint-imports", "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout


def test_the_public_face() -> None:
    """What a user may import: curated, sorted, and all there."""
    assert forewarn.__all__ == ["__version__"]
    assert sorted(forewarn.__all__) == forewarn.__all__
    assert all(hasattr(forewarn, name) for name in forewarn.__all__)


@pytest.mark.parametrize(
    "start", ["import forewarn", "from forewarn.serve.cli.main import cli; cli(['--help'])"]
)
def test_a_start_is_light(start: str) -> None:
    """Counted in modules, since a clock depends on who else is at work."""
    assert loaded(start, "polars", "numpy", "numba", "rich", "sqlite3", *LEARNERS) == []


@pytest.mark.parametrize("name", COMMANDS)
def test_help_needs_no_learner(name: str) -> None:
    start = f"from forewarn.serve.cli.main import cli; cli([{name!r}, '--help'])"
    assert loaded(start, *LEARNERS) == []


def loaded(start: str, *modules: str) -> list[str]:
    """Which of the modules are there after a start."""
    code = f"import sys\ntry:\n    {start}\nexcept SystemExit: pass\n"
    code += f"print(*(m for m in {modules} if m in sys.modules), file=sys.stderr)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return result.stderr.split()


def test_the_lock_is_pinned_hashed_and_names_no_place() -> None:
    lines = (ROOT / "requirements/test.txt").read_text().splitlines()
    for line in lines:
        assert "://" not in line
        assert "index-url" not in line
        assert "/" not in line.split("#")[0], line
    entries = [line for line in lines if line and not line.startswith((" ", "#"))]
    assert entries
    assert all("==" in entry and entry.endswith("\\") for entry in entries)
