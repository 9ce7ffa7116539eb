"""Compile the kernels of features and forecasts once for all users of an installation.

    python -m forewarn.operate.precompile

Run it as the owner of the installation, after each install and update. It writes the compiled code beside the
source; a user whose own cache is empty takes it from there, without waiting for a compiler. Without it, each
user compiles once.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from forewarn.compiled import SHARED, always_compile

_JOBS = 500  # more rows than a kernel of tables takes for few


def precompile(shared: Path = SHARED) -> list[Path]:
    """Compile the kernels with an empty cache, copy the cache to `shared`, and return its folders."""
    with TemporaryDirectory(prefix="forewarn-") as folder:
        os.environ["XDG_CACHE_HOME"] = folder  # before the kernel is imported
        compile_kernels()
        cache = Path(folder) / "forewarn"
        shutil.copytree(cache, shared, dirs_exist_ok=True)
        for path in (shared, *shared.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        return [shared / path.name for path in cache.iterdir()]


def compile_kernels() -> None:
    """Compile the kernels into this user's cache, by a short history and a question about a job."""
    with TemporaryDirectory(prefix="forewarn-") as folder:
        from forewarn.config import Config
        from forewarn.job.columns import to_frame
        from forewarn.job.outcomes import Outcome
        from forewarn.job.record import Job, Observation
        from forewarn.learn.heads.usage.bin_trees import BinTrees
        from forewarn.operate.workspace import Workspace
        from forewarn.store.base import ClusterFacts
        from forewarn.store.opening import open_store

        always_compile()
        config = Config(home=Path(folder) / "home")
        ends: dict[str, Any] = {"start": 2, "end": 3, "nodes": "n1", "outcome": Outcome.COMPLETED}
        jobs = [Job(cluster="c", job_id=str(n), submit=n, user=f"u{n}", **ends) for n in range(_JOBS)]
        seen = [
            Observation(seen_at=_JOBS, source="precompile", reconstructed=True, record=job) for job in jobs
        ]
        with open_store(config) as store, store.writing() as writer:
            writer.describe_cluster("c", ClusterFacts())
            writer.observe("job", to_frame(seen))
        with Workspace(config) as workspace:
            asked = Job(cluster="c", job_id="", submit=_JOBS + 1, user="u1")
            workspace.engine("c").assess_all([asked])
        node, number = np.zeros(1, np.int32), np.zeros((1, 1), np.float32)
        leaf = BinTrees(node, node - 1, number[0], node, node, node > 0, base=np.float32(0), features=3)
        leaf.margins(number, number, number[0])


if __name__ == "__main__":
    for compiled in precompile():
        print(compiled, file=sys.stderr)
