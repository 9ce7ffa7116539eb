"""Rules on programs: the interpreter, programs called by name, modules."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches

from forewarn.assess.assessment import Finding
from forewarn.assess.finding_codes import FindingCode, FixCode
from forewarn.assess.script.script_context import ScriptContext
from forewarn.job.sbatch.calls import LAUNCHERS
from forewarn.job.sbatch.shell import is_plain

# Built into the shell, or provided to jobs by Slurm.
_BUILT_IN_WORDS = """
    . : [ [[ alias bg bind break builtin caller case cd command compgen complete continue declare dirs
    disown echo enable esac eval exec exit export false fc fg fi for getopts hash help history if in jobs
    kill let local logout mapfile popd printf pushd pwd read readarray readonly return select set shift
    shopt source suspend test then time times trap true type typeset ulimit umask unalias unset until wait
    while module ml srun sbatch scancel squeue scontrol sacct sattach sbcast salloc sinfo mpirun mpiexec
    conda mamba micromamba deactivate activate spack setenv unsetenv limit onintr foreach end endif switch
    breaksw
"""
_BUILT_IN = frozenset(_BUILT_IN_WORDS.split())
# Blanks within a line: \s would also match line breaks, and be tried again from each line.
_DEFINED = re.compile(
    r"^[ \t]*(?:function[ \t]+)?([\w.-]+)[ \t]*\(\)|^[ \t]*function[ \t]+([\w.-]+)"
    r"|^[ \t]*alias[ \t]+([\w.-]+)=",
    re.M,
)


def interpreter(context: ScriptContext) -> Iterator[Finding]:
    """Find a missing interpreter in the first line."""
    first = context.script.text.partition("\n")[0].rstrip("\r")
    words = first[2:].split() if first.startswith("#!") else []
    if not words:
        return
    program = words[0]
    if context.host.path_type(program) == "nothing":
        yield Finding(
            rule="missing-interpreter",
            code=FindingCode.MISSING_INTERPRETER,
            values={"interpreter": program},
            line=1,
            severity="error" if context.is_shared(program) else "warning",  # a node may have it
        )
    elif program.endswith("/env"):
        names = [w for w in words[1:] if not w.startswith("-") and "=" not in w]
        if names and context.host.has_program(names[0]) is False:
            code, values = FindingCode.INTERPRETER_NOT_ON_PATH, {"interpreter": names[0]}
            yield Finding(rule="missing-interpreter", code=code, values=values, line=1)


def programs(context: ScriptContext) -> Iterator[Finding]:
    """Find programs that are called by name and are not on PATH."""
    if context.changes_programs or not context.script.body.is_shell:
        return
    yield from _launchers(context)
    own = {name for match in _DEFINED.findall(context.script.text[:1_000_000]) for name in match if name}
    seen = set[str]()
    for call in context.script.body.calls:
        name = call.program
        if "/" in name or name in _BUILT_IN or name in own or name in seen or call.image is not None:
            continue
        seen.add(name)
        if is_plain(name) and re.fullmatch(r"[\w.+-]+", name) and context.host.has_program(name) is False:
            # Only a warning: a compute node may have programs that a login node has not.
            yield _not_on_path(name, call.line)


def _launchers(context: ScriptContext) -> Iterator[Finding]:
    """Find launchers such as mpirun and apptainer that are not on PATH. Slurm itself provides srun."""
    calls = [call for call in context.script.body.calls if call.launchers and call.command.words]
    for name, line in {call.command.words[0]: call.line for call in reversed(calls)}.items():
        if name in LAUNCHERS and name != "srun" and context.host.has_program(name) is False:
            yield _not_on_path(name, line)


def _not_on_path(name: str, line: int) -> Finding:
    code = FindingCode.NOT_ON_PATH
    return Finding(rule="missing-program", code=code, values={"program": name}, line=line)


# Variables that a module system sets, and the files that start it.
_MODULE_VARIABLES = ("MODULEPATH", "MODULESHOME", "LMOD_CMD", "LMOD_ROOT")
_MODULE_FILES = tuple(
    f"/etc/profile.d/{name}.sh" for name in ("modules", "lmod", "z00_lmod", "00-modulepath")
)


def modules(context: ScriptContext) -> Iterator[Finding]:
    """Find modules that do not exist, or a missing module system."""
    body = context.script.body
    if body.modules and not context.runs_other_scripts and not _has_module_system(context):
        code = FindingCode.NO_MODULE_SYSTEM
        yield Finding(rule="missing-module", code=code, line=body.modules[0].line)
        return
    named = [m for m in body.modules if is_plain(m.name)]
    if not named or any(not is_plain(folder) for folder in body.module_folders):
        return
    folders = [full_path for folder in body.module_folders if (full_path := context.resolve(folder))]
    for module in named:
        if context.host.has_module(module.name, folders) is not False:
            continue
        similar = context.host.similar_modules(module.name, folders)
        near = get_close_matches(module.name, similar, n=1, cutoff=0.6)
        # Only a warning: nodes may have other modules, an earlier one may add more, and the script continues.
        yield Finding(
            rule="missing-module",
            code=FindingCode.MISSING_MODULE,
            values={"module": module.name} | ({"near": near[0]} if near else {}),
            line=module.line,
            fix=FixCode.SIMILAR_MODULE if near else None,
        )


def _has_module_system(context: ScriptContext) -> bool:
    host = context.host
    return any(host.environment.get(name) for name in _MODULE_VARIABLES) or any(
        host.path_type(file) != "nothing" for file in _MODULE_FILES
    )


RULES = (programs, modules)
AT_START = (interpreter,)
