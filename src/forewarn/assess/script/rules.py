"""All rules, and the walk over them."""

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
# By who decides: sbatch at once, Slurm when the job starts, or the shell while it runs.
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
MOST_OF_A_RULE = 20  # nobody reads more, and a script of 10,000 such lines must not take minutes
_ORDER = {"error": 0, "warning": 1, "note": 2}


def findings(
    script: Script, path: Path, surroundings: Host, *, work_dir: Path | None = None
) -> tuple[Finding, ...]:
    """What is wrong with a script, the worst first, then by line.

    `path` is where the script is; `work_dir` is where sbatch will be called, if that is not its folder.
    """
    context = ScriptContext(script, path, surroundings, path.parent if work_dir is None else work_dir)
    found = dict.fromkeys(
        limit_severity(replace(finding, about=about), context)
        for about, rules in RULES.items()
        for rule in rules
        for finding in islice(rule(context), MOST_OF_A_RULE)
    )
    return tuple(sorted(found, key=lambda finding: (_ORDER[finding.severity], finding.line or 0)))
