"""All rules on scripts, and `findings`, which applies them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import MappingProxyType

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
from forewarn.assess.script.certainty import limit_severity
from forewarn.assess.script.host import Host
from forewarn.assess.script.script_context import ScriptContext
from forewarn.job.sbatch.script import Script

Rule = Callable[[ScriptContext], Iterator[Finding]]
# By when they matter: at submission (sbatch), at the start of the job (Slurm), or during its run (the shell).
RULES: Mapping[str, tuple[Rule, ...]] = MappingProxyType(
    {
        "submission": (*text_rules.RULES, *option_rules.RULES),
        "start": (*file_rules.AT_START, *program_rules.AT_START),
        "run": (
            *task_rules.RULES,
            *file_rules.RULES,
            *program_rules.RULES,
            *python_rules.RULES,
            *binary_rules.RULES,
        ),
    }
)
MOST_OF_A_RULE = 20  # more are not useful, and a script of 10,000 such lines must not take minutes
_ORDER = {"error": 0, "warning": 1, "note": 2}


def findings(script: Script, path: Path, host: Host, *, work_dir: Path | None = None) -> tuple[Finding, ...]:
    """Apply all rules to a script; return the findings by severity, then by line.

    `path` is the path of the script; `work_dir` is where sbatch will be called, if that is not its folder.
    """
    context = ScriptContext(script, path, host, path.parent if work_dir is None else work_dir)
    found = dict.fromkeys(
        limit_severity(replace(finding, about=about), context)
        for about, rules in RULES.items()
        for rule in rules
        for finding in islice(rule(context), MOST_OF_A_RULE)
    )
    return tuple(sorted(found, key=lambda finding: (_ORDER[finding.severity], finding.line or 0)))
