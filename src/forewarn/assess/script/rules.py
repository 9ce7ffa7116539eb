"""All rules, and the walk over them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from forewarn.assess.assessment import Finding
from forewarn.assess.script import (
    binary_rules,
    file_rules,
    option_rules,
    program_rules,
    python_rules,
    task_rules,
    text_rules,
)
from forewarn.assess.script.subject import Subject
from forewarn.assess.script.surroundings import Surroundings
from forewarn.job.sbatch.script import Script

Rule = Callable[[Subject], Iterator[Finding]]
RULES: tuple[Rule, ...] = (
    *text_rules.RULES,
    *option_rules.RULES,
    *task_rules.RULES,
    *file_rules.RULES,
    *program_rules.RULES,
    *python_rules.RULES,
    *binary_rules.RULES,
)
_ORDER = {"error": 0, "warning": 1, "note": 2}


def findings(
    script: Script, path: Path, surroundings: Surroundings, *, work_dir: Path | None = None
) -> tuple[Finding, ...]:
    """What is wrong with a script, the worst first, then by line.

    `path` is where the script is; `work_dir` is where sbatch will be called, if that is not its folder.
    """
    subject = Subject(script, path, surroundings, path.parent if work_dir is None else work_dir)
    found = dict.fromkeys(finding for rule in RULES for finding in rule(subject))
    return tuple(sorted(found, key=lambda finding: (_ORDER[finding.severity], finding.line or 0)))
