"""Slurm's `sbatch` on this machine: its version, and its answer to `--test-only`, which submits nothing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


def slurm_version(environment: Mapping[str, str]) -> tuple[int, int] | None:
    """Return the version of the sbatch on PATH, such as (24, 11); None without sbatch."""
    program = shutil.which("sbatch", path=environment.get("PATH"))
    if program is None:
        return None
    try:
        done = subprocess.run(
            [program, "--version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=3.0, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r"(\d+)\.(\d+)", done.stdout.decode("utf-8", "replace"))
    return (int(match[1]), int(match[2])) if match else None


def run_test_only(
    script: bytes,
    options: Sequence[str] = (),
    *,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    timeout: float = 10.0,
) -> tuple[int, str] | None:
    """Run `sbatch --test-only` and return its exit code and output; None without sbatch, or at a timeout.

    The script is sent on standard input, since sbatch transfers only its text: its location and who may read
    that folder do not matter. `options` are those of the command line, `folder` is the submission folder.
    """
    variables = dict(os.environ if environment is None else environment) | {"LC_ALL": "C.UTF-8"}
    program = shutil.which("sbatch", path=variables.get("PATH"))
    if program is None:
        return None
    try:
        done = subprocess.run(
            [program, "--test-only", *options],
            input=script,
            capture_output=True,
            timeout=timeout,
            env=variables,
            cwd=folder,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.returncode, done.stderr.decode("utf-8", "replace")
