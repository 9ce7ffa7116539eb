"""Checks of a script in a folder, as on a login node."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from forewarn.assess.assessment import Finding
from forewarn.assess.script import LocalHost, findings
from forewarn.job.sbatch.script import read_script

ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/nonexistent"}


def check(
    folder: Path, text: str, *, environment: dict[str, str] | None = None, command_line: Sequence[str] = ()
) -> list[Finding]:
    """Return the findings of a script in a folder."""
    path = folder / "job.sbatch"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    return list(
        findings(
            read_script(text, command_line=command_line), path, LocalHost(ENVIRONMENT | (environment or {}))
        )
    )


def rules_found(folder: Path, text: str, **more: object) -> list[tuple[str, int | None, str]]:
    """Return rule, line and severity of each finding."""
    return [(f.rule, f.line, f.severity) for f in check(folder, text, **more)]  # type: ignore[arg-type]
