"""The facts that are kept of a script, wherever history holds scripts; the script itself is not kept."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from posixpath import basename

from forewarn.job.sbatch.body import Body, language_of, read_body
from forewarn.job.sbatch.calls import call_of
from forewarn.job.sbatch.shell import Command


@dataclass(frozen=True, slots=True)
class ScriptFacts:
    """Short descriptions, equal for scripts that do the same kind of thing."""

    hash: str
    language: str
    modules: str | None  # comma separated, sorted
    launcher: str = "none"  # srun, mpirun, srun+apptainer; none: it starts its programs directly
    environment: str | None = None  # conda:torch, venv:env


def facts_of(script: str, body: Body) -> ScriptFacts:
    """Collect the facts of a script whose body has been read."""
    first = body.environments[0] if body.environments else None
    return ScriptFacts(
        hash=sha256(script.encode("utf-8", "replace")).hexdigest()[:16],
        language=body.language,
        modules=",".join(sorted({module.name for module in body.modules})) or None,
        launcher="+".join(body.launchers) or "none",
        environment=f"{first.tool}:{basename(first.name)}" if first else None,
    )


@lru_cache(maxsize=1 << 12)
def script_facts(script: str) -> ScriptFacts:
    r"""Read the facts of a script.

    >>> facts = script_facts("#!/bin/bash\n#SBATCH -n 4\nmodule load gcc/12 openmpi\nsrun python3 a.py\n")
    >>> facts.language, facts.modules, len(facts.hash), facts.launcher
    ('python', 'gcc/12,openmpi', 16, 'srun')
    """
    return facts_of(script, read_body(script))


@lru_cache(maxsize=1 << 12)
def line_facts(submit_line: str) -> tuple[str | None, str | None]:
    """Find language and launcher of a job without a script, by its srun line. Slurm keeps no quotes in it.

    >>> line_facts("srun -n 4 python train.py"), line_facts("sbatch -n 4 job.sh")
    (('python', 'srun'), (None, None))
    """
    words = tuple(submit_line.split())
    if not words or basename(words[0]) != "srun":
        return None, None
    call = call_of(Command(1, words))
    if call is None:
        return None, "srun"
    return language_of(call.program), "+".join(dict.fromkeys(call.launchers))
