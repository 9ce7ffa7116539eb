"""What the owner of an installation compiles is what its users would compile."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_the_large_kernels_are_compiled(tmp_path: Path) -> None:
    code = "import sys; from pathlib import Path; from forewarn.operate.precompile import precompile; "
    code += "precompile(Path(sys.argv[1]))"
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    shared = tmp_path / "shared"
    subprocess.run([sys.executable, "-c", code, shared], env=environment, check=True, timeout=280)
    kernels = {path.name.partition("-")[0] for path in shared.rglob("*.nbc")}
    assert kernels >= {"run.walk_events", "entities.entity_keys", "peek.peek_features", "walk.walk_trees"}
