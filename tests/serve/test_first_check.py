"""The first commands of somebody new: one job needs no compiler, and what takes long is announced."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from forewarn import compiled
from forewarn.config import Config
from forewarn.operate.ingest_file import ingest
from forewarn.serve.cli.terminal import progress
from forewarn.sources.base import open_source
from forewarn.sources.simulator import simulate
from forewarn.store.base import ClusterFacts
from forewarn.store.opening import open_store
from tests.serve.conftest import Forewarn
from tests.serve.test_live_cli import ANSWERS, NOW
from tests.sources.fake_slurmrestd import jwt, serving
from tests.sources.test_slurmrestd_client import script

pytestmark = pytest.mark.slow

EXECUTABLE = Path(sys.executable).parent / "forewarn"


def test_a_short_history_is_read_without_a_compiler(tmp_path: Path) -> None:
    simulate("small", 200, 5, tmp_path / "jobs.parquet", "parquet")
    with open_store(Config(home=tmp_path / "home")) as store:
        ingest(store, open_source(f"parquet:{tmp_path}/jobs.parquet"))
    script = tmp_path / "job.sbatch"
    script.write_text("#!/bin/bash\n#SBATCH --time=10\nhostname\n")
    cache = tmp_path / "cache"
    done = subprocess.run(
        [EXECUTABLE, "check", "--no-test-only", "--json", script],
        env=os.environ | {"FOREWARN_HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": str(cache)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert '"verdict"' in done.stdout, done.stderr
    assert "only the script" not in done.stderr
    assert not list(cache.rglob("*.nbc")), "what was compiled would lie there"


def test_what_takes_long_is_announced(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0.01)
    with progress.working("compiling"):
        time.sleep(0.1)
        assert "compiling …" in capsys.readouterr().err, "while it is done"
    monkeypatch.setattr(progress, "PATIENCE", 10)
    with progress.working("nothing"):
        pass
    assert capsys.readouterr().err == ""


def test_work_that_has_not_reported_progress_yet(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first step can be the long one: what it needs is compiled."""
    monkeypatch.setattr(progress, "PATIENCE", 0.01)
    with progress.progress("reading") as report:
        time.sleep(0.1)
        assert capsys.readouterr().err == "reading …\n", "before the first report"
        report(7)
    assert capsys.readouterr().err == "reading: 7\n"


def test_compiling_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0.01)
    monkeypatch.setattr(compiled, "_cold", [tmp_path])
    for expected in (
        "assessing … (its code is compiled first, once: about half a minute)\n",
        "assessing …\n",
    ):
        with progress.working("assessing"):
            time.sleep(0.1)
        assert capsys.readouterr().err == expected
        (tmp_path / "run.nbc").touch()  # now it is compiled


@pytest.mark.parametrize("command", ["predict", "runtime", "advise"])
def test_what_of_a_live_job_takes_long_is_announced(
    command: str, forewarn: Forewarn, registry_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert registry_home.is_dir()
    announced: list[str] = []

    @contextmanager
    def working(what: str) -> Iterator[None]:
        announced.append(what)
        yield

    monkeypatch.setattr(progress, "working", working)
    with serving(script(42, **ANSWERS)) as fake:
        monkeypatch.setenv("FOREWARN_SLURMRESTD", fake.address)
        monkeypatch.setenv("SLURM_JWT", jwt(issued=NOW - 10, expires=NOW + 3600))
        forewarn(command, "8")
    assert announced == [
        "asking Slurm about the jobs",
        "loading the models",
        "reading 1 job of history",
        "assessing 1 job",
    ]


def test_explaining_one_live_job_needs_no_compiler(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    with serving(script(42, **ANSWERS)) as fake:
        environment = os.environ | {
            "FOREWARN_HOME": str(tmp_path / "home"),
            "FOREWARN_SLURMRESTD": fake.address,
            "SLURM_JWT": jwt(issued=NOW - 10, expires=NOW + 3600),
            "XDG_CACHE_HOME": str(cache),
        }
        with open_store(Config(home=tmp_path / "home")) as store:
            simulate("small", 200, 5, tmp_path / "jobs.parquet", "parquet")
            ingest(store, open_source(f"parquet:{tmp_path}/jobs.parquet"))
            with store.writing() as writer:
                writer.describe_cluster("lab", ClusterFacts())
        done = subprocess.run(
            [EXECUTABLE, "explain", "8"], env=environment, capture_output=True, text=True, check=False
        )
    assert "The job is running" in done.stdout, done.stderr
    assert not list(cache.rglob("*.nbc")), "what was compiled would lie there"
