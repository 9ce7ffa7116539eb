"""The code of docs/python.md, run from top to bottom in one namespace, against a small simulated site."""

from __future__ import annotations

import re
import shutil
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from forewarn.sources.simulator import simulate
from forewarn.sources.simulator.scenario import load_scenario
from forewarn.sources.simulator.writers.machine import write_machine

pytestmark = pytest.mark.slow

PAGE = Path(__file__).resolve().parents[1] / "docs" / "python.md"
JOBS = 5000  # about the least of which a model can be made

SCRIPT = """\
#!/bin/bash
#SBATCH --partition=main
#SBATCH --ntasks=8
#SBATCH --mem-per-cpu=3000M
#SBATCH --time=06:00:00

srun ./solver
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, registry_template: Path) -> Path:
    """Where the page's reader stands: an export of sacct, a script, and a home folder of their own."""
    small = files("forewarn.sources.simulator").joinpath("scenarios", "small.toml").read_text()
    scenario = tmp_path / "alps.toml"
    scenario.write_text(small.replace('name = "small"', 'name = "alps"'))
    simulate(scenario, JOBS, 1, tmp_path / "history.txt", "sacct")
    write_machine(load_scenario(scenario), tmp_path)
    (tmp_path / "job.sbatch").write_text(SCRIPT)
    (tmp_path / "forewarn" / "models").mkdir(parents=True)
    shutil.copy(registry_template, tmp_path / "forewarn" / "models")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for name in ("HOME", "CONFIG", "POLICY", "CLUSTER", "TIMEZONE", "TRACKING"):
        monkeypatch.delenv(f"FOREWARN_{name}", raising=False)
    return tmp_path


def test_the_page_runs(folder: Path) -> None:
    blocks = list(re.finditer(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL))
    assert len(blocks) > 5
    namespace: dict[str, Any] = {"__name__": "page"}
    for block in blocks:
        line = PAGE.read_text()[: block.start(1)].count("\n")
        code = compile("\n" * line + block[1], str(PAGE), "exec")  # a traceback names the page's line
        exec(code, namespace)
    assert namespace["result"].new == JOBS
    assert namespace["features"].height == JOBS
    assert 0 < namespace["failure"].max() < 1


def test_every_public_name_is_on_the_page() -> None:
    import forewarn

    listed = PAGE.read_text().partition("## The whole list")[2]
    assert set(re.findall(r"`(\w+)`", listed)) >= set(forewarn.__all__)
