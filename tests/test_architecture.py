"""The order of the rooms, the public face, and starts that stay quick."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
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


PUBLIC = """
    Advice Assessment AsyncClient Client Config Failure Finding ForewarnError Job LearningError
    MissingExtraError Model Node NodeHealth Partition PostMortem Reason RetryVerdict SchedulerError
    ServiceError Site SourceError StoreError TrainingResult UsageError UsageSample Verdict __version__ open
"""


def test_the_public_face() -> None:
    """What a user may import: curated, sorted, and all there under its own name."""
    assert forewarn.__all__ == PUBLIC.split()
    assert sorted(forewarn.__all__) == forewarn.__all__
    assert set(forewarn.__all__) <= set(dir(forewarn))
    for name in set(forewarn.__all__) - {"__version__", "open"}:
        assert getattr(forewarn, name).__name__ == name
    assert forewarn.open is forewarn.operate.site.open_site
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        forewarn.nothing  # noqa: B018


LONGEST = 30  # lines of a command: it parses, calls and renders


def test_a_command_parses_calls_and_renders() -> None:
    """What it does is a function of another room: then Python, a service and a dashboard can do it too."""
    long = set()
    for path in (ROOT / "src/forewarn/serve/cli/commands").glob("*.py"):
        for function in commands_in(path):
            body = function.body[1:] if ast.get_docstring(function) else function.body
            if body and body[-1].end_lineno - body[0].lineno >= LONGEST:  # type: ignore[operator]
                long.add(path.stem)
    assert long == set()


def commands_in(path: Path) -> Iterator[ast.FunctionDef]:
    """The functions of a module that click runs."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef):
            makers = (d.func for d in node.decorator_list if isinstance(d, ast.Call))
            if any(isinstance(maker, ast.Attribute) and maker.attr == "command" for maker in makers):
                yield node


def test_every_command_is_measured() -> None:
    found = {
        path.stem
        for path in (ROOT / "src/forewarn/serve/cli/commands").glob("*.py")
        if any(commands_in(path))
    }
    assert found == set(COMMANDS)


@pytest.mark.parametrize(
    "start", ["import forewarn", "from forewarn.serve.cli.main import cli; cli(['--help'])"]
)
def test_a_start_is_light(start: str) -> None:
    """Counted in modules, since a clock depends on who else is at work."""
    assert loaded(start, "polars", "numpy", "numba", "rich", "sqlite3", "jwt", *LEARNERS) == []


def test_an_import_is_next_to_nothing() -> None:
    """Opening a site still needs no table, no model and no command line."""
    assert loaded("import forewarn", "click", "typing", "importlib.metadata", "logging") == []
    assert loaded("import forewarn; forewarn.open('nowhere')", "polars", "numpy", "click", "sqlite3") == []


@pytest.mark.slow
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


@pytest.mark.parametrize(
    "module",
    [
        "client.client",
        "client.async_client",
        "cli.remote.check",
        "cli.remote.live_jobs",
        "cli.remote.explain",
    ],
)
def test_a_client_needs_no_tables_and_no_learner(module: str) -> None:
    """A check on a login node takes tenths of a second because the service has all of this."""
    heavy = ("polars", "numpy", "numba", "pyarrow", "pydantic", "fastapi", "sqlite3", *LEARNERS)
    assert loaded(f"import forewarn.serve.{module}", *heavy) == []


def test_a_check_with_a_service_needs_no_tables_and_no_learner(tmp_path: Path) -> None:
    script = tmp_path / "job.sbatch"
    script.write_text("#!/bin/bash\n#SBATCH --time=1:00:00 --mem=1G\nsrun /bin/true\n")
    flags = ["check", str(script), "--url", "http://127.0.0.1:1", "--no-test-only"]  # nothing answers there
    start = f"from forewarn.serve.cli.main import cli; cli({flags!r})"
    heavy = ("polars", "numpy", "numba", "pyarrow", "pydantic", "sqlite3", *LEARNERS)
    assert [one for one in loaded(start, *heavy) if one in heavy] == []
