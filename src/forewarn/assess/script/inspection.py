"""What the machine that a script is submitted from can tell about it: findings, and what sbatch answers.

A service cannot see that machine. A client inspects the script there, and sends the result along with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from forewarn.assess.assessment import Finding
from forewarn.assess.script.host import Host
from forewarn.assess.script.rules import findings
from forewarn.assess.script.sbatch_test import SbatchAnswer, ask_sbatch
from forewarn.job.sbatch.script import Script


@dataclass(frozen=True, slots=True)
class ScriptInspection:
    """The findings in a script, and the answer of `sbatch --test-only`, where it was asked."""

    findings: tuple[Finding, ...] = ()
    answer: SbatchAnswer | None = None


def inspect_script(
    raw: bytes,
    script: Script,
    path: Path,
    host: Host,
    *,
    work_dir: Path,
    options: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    ask_slurm: bool = False,
) -> ScriptInspection:
    """Inspect a script on a host; nothing in it is run."""
    answer = ask_sbatch(raw, options, environment=environment, folder=work_dir) if ask_slurm else None
    return ScriptInspection(tuple(findings(script, path, host, work_dir=work_dir)), answer)
