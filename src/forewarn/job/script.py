"""What a batch script says about the job: which script it is, in what language, with what modules."""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256

_SHEBANG = re.compile(r"#!\s*(?:\S*/)?env\s+(?:-S\s+)?(\S+)|#!\s*(?:\S*/)?(\S+)")
_SHELLS = frozenset({"sh", "bash", "dash", "ksh", "zsh", "csh", "tcsh"})
# The first program that a shell script starts says more than the shell; what launches it, and what
# stands before it (srun -n 4 python x.py), says less.
_LANGUAGES = {
    **{"python": "python", "ipython": "python", "jupyter": "python", "conda": "python", "torchrun": "python"},
    **{"R": "r", "Rscript": "r", "matlab": "matlab", "octave": "matlab", "julia": "julia", "perl": "perl"},
    **{"java": "java", "ruby": "ruby", "node": "javascript"},
}
_PROGRAM = re.compile(
    r"(?<![\w./-])(?:\S*/)?(" + "|".join(map(re.escape, _LANGUAGES)) + r")(?:\d[\d.]*)?(?=\s|$)"
)
_MODULES = re.compile(
    r"^\s*(?:module\s+(?:-\S+\s+)*(?:load|add)|ml(?!\s+(?:purge|avail|list|unload|spider)\b))\s+(.+)"
)
_COMMENT = re.compile(r"(^|\s)#.*")


@dataclass(frozen=True, slots=True)
class ScriptFacts:
    """What is kept of a script; the script itself is not."""

    hash: str
    language: str
    modules: str | None  # comma separated, sorted


def script_facts(script: str) -> ScriptFacts:
    r"""Read a script.

    >>> facts = script_facts("#!/bin/bash\n#SBATCH -n 4\nmodule load gcc/12 openmpi\nsrun python3 a.py\n")
    >>> facts.language, facts.modules, len(facts.hash)
    ('python', 'gcc/12,openmpi', 16)
    >>> script_facts("#!/usr/bin/env Rscript\nx <- 1").language, script_facts("#!/bin/sh\n./solver").language
    ('r', 'sh')
    """
    lines = [_COMMENT.sub("", line) for line in script.splitlines()]
    modules = {
        name
        for line in lines
        if (match := _MODULES.match(line))
        for name in re.split(r"[;&|]", match[1])[0].split()
        if not name.startswith("-")
    }
    return ScriptFacts(
        hash=sha256(script.encode("utf-8", "replace")).hexdigest()[:16],
        language=_language(script.partition("\n")[0], lines),
        modules=",".join(sorted(modules)) or None,
    )


def _language(first_line: str, lines: list[str]) -> str:
    shebang = _SHEBANG.match(first_line)
    interpreter = (shebang[1] or shebang[2]) if shebang else "sh"
    if interpreter not in _SHELLS:
        match = _PROGRAM.match(interpreter)
        return _LANGUAGES[match[1]] if match else interpreter
    for line in lines:
        if not _MODULES.match(line) and (match := _PROGRAM.search(line)):
            return _LANGUAGES[match[1]]
    return interpreter
