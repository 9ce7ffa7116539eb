"""The first check of somebody new: a short history needs no compiler, and what takes long is announced."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from forewarn.operate.ingest import ingest
from forewarn.serve.cli import progress
from forewarn.sources.base import open_source
from forewarn.sources.simulator import simulate
from forewarn.store.embedded import open_store

EXECUTABLE = Path(sys.executable).parent / "forewarn"


def test_a_short_history_is_read_without_a_compiler(tmp_path: Path) -> None:
    simulate("small", 200, 5, tmp_path / "jobs.parquet", "parquet")
    with open_store(tmp_path / "home") as store:
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
    assert not list(cache.glob("forewarn/*")), "what was compiled would lie there"


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
