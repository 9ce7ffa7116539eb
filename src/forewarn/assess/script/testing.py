"""`sbatch --test-only`: what the scheduler itself says to a script. It submits nothing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from forewarn.assess.assessment import Finding

_STARTS = re.compile(r"Job \d+ to start at (\S+) using (\d+) processors on nodes (\S+) in partition (\S+)")
_AWAY = re.compile(
    r"Unable to contact slurm controller|[Cc]onnection refused|Zero Bytes|_SLURM_CONF|fetch_config"
)


def test_only(
    path: Path,
    options: Sequence[str] = (),  # noqa: PT028 - no test of pytest's, whatever its name
    *,
    environment: Mapping[str, str] | None = None,  # noqa: PT028
    timeout: float = 10.0,  # noqa: PT028
) -> Finding | None:
    """Ask sbatch; None where there is none, it does not answer in time, or Slurm is away.

    `options` are those of the command line. A note says when the job would start; an error is what sbatch
    refuses it for.
    """
    said = dict(os.environ if environment is None else environment) | {"LC_ALL": "C.UTF-8"}
    program = shutil.which("sbatch", path=said.get("PATH"))
    if program is None:
        return None
    try:
        done = subprocess.run(
            [program, "--test-only", *options, path.name],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout,
            env=said,
            cwd=path.parent,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = done.stderr.decode("utf-8", "replace").splitlines()
    return _told(done.returncode, [line.removeprefix("sbatch: ").removeprefix("error: ") for line in lines])


def _told(code: int, lines: list[str]) -> Finding | None:
    whole = "\n".join(lines)
    if _AWAY.search(whole):
        return None
    if (match := _STARTS.search(whole)) is not None:
        what = f"sbatch --test-only: would start {match[1]} on {match[3]} ({match[4]}), {match[2]} processors"
        return Finding(rule="test-only", what=what, severity="note")
    if code == 0:
        return None
    words = [line for line in lines if line and not line.startswith('Try "sbatch')]
    what = f"sbatch --test-only refuses it: {words[-1] if words else f'exit code {code}'}"
    return Finding(rule="test-only", what=what, severity="error")


test_only.__test__ = False  # type: ignore[attr-defined]  # no test of pytest's, whatever its name
