"""Rules about programs: the interpreter, what is called by name, modules."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches

from forewarn.assess.assessment import Finding
from forewarn.assess.script.subject import Subject
from forewarn.job.sbatch.calls import LAUNCHERS
from forewarn.job.sbatch.shell import is_plain

# The shell's own, and what Slurm puts there for jobs.
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
# Blanks of one line: \s would run on over line breaks, from each line again.
_DEFINED = re.compile(
    r"^[ \t]*(?:function[ \t]+)?([\w.-]+)[ \t]*\(\)|^[ \t]*function[ \t]+([\w.-]+)"
    r"|^[ \t]*alias[ \t]+([\w.-]+)=",
    re.M,
)


def interpreter(subject: Subject) -> Iterator[Finding]:
    """The first line's program must be there and runnable."""
    first = subject.script.text.partition("\n")[0].rstrip("\r")
    words = first[2:].split() if first.startswith("#!") else []
    if not words:
        return
    program = words[0]
    if subject.around.kind(program) == "nothing":
        what = f"the interpreter {program} does not exist here"
        severity = "error" if subject.is_shared(program) else "warning"  # a node may have it
        yield Finding(rule="missing-interpreter", what=what, line=1, severity=severity)
    elif program.endswith("/env"):
        names = [w for w in words[1:] if not w.startswith("-") and "=" not in w]
        if names and subject.around.which(names[0]) is None:
            what = f"env does not find {names[0]} here"
            yield Finding(rule="missing-interpreter", what=what, line=1)


def programs(subject: Subject) -> Iterator[Finding]:
    """Programs that are called by name and are on no PATH."""
    if subject.changes_programs or not subject.script.body.is_shell:
        return
    yield from _launchers(subject)
    own = {name for match in _DEFINED.findall(subject.script.text[:1_000_000]) for name in match if name}
    seen = set[str]()
    for call in subject.script.body.calls:
        name = call.program
        if "/" in name or name in _BUILT_IN or name in own or name in seen or call.image is not None:
            continue
        seen.add(name)
        if not is_plain(name) or not re.fullmatch(r"[\w.+-]+", name) or subject.around.which(name):
            continue
        # A warning only: a node may have what a login node has not.
        yield Finding(rule="missing-program", what=_not_on_path(name), line=call.line)


def _launchers(subject: Subject) -> Iterator[Finding]:
    """What starts other programs and is on no PATH itself: mpirun, apptainer. Slurm brings srun."""
    calls = [call for call in subject.script.body.calls if call.launchers and call.command.words]
    for name, line in {call.command.words[0]: call.line for call in reversed(calls)}.items():
        if name in LAUNCHERS and name != "srun" and subject.around.which(name) is None:
            yield Finding(rule="missing-program", what=_not_on_path(name), line=line)


def _not_on_path(name: str) -> str:
    loads = "the script loads no module or environment that could bring it"
    return f"the program {name} is not on PATH here, and {loads}"


# What a module system sets, and where it is started from.
_MODULE_VARIABLES = ("MODULEPATH", "MODULESHOME", "LMOD_CMD", "LMOD_ROOT")
_MODULE_FILES = tuple(
    f"/etc/profile.d/{name}.sh" for name in ("modules", "lmod", "z00_lmod", "00-modulepath")
)


def modules(subject: Subject) -> Iterator[Finding]:
    """Modules that nobody here has."""
    body = subject.script.body
    if body.modules and not subject.runs_other_scripts and not _has_module_system(subject):
        what = "it loads modules, and there is no module system here (MODULEPATH is not set)"
        yield Finding(rule="missing-module", what=what, line=body.modules[0].line)
        return
    wanted = [m for m in body.modules if is_plain(m.name)]
    if not wanted or any(not is_plain(folder) for folder in body.module_folders):
        return
    folders = [place for folder in body.module_folders if (place := subject.place(folder))]
    for module in wanted:
        if subject.around.has_module(module.name, folders) is not False:
            continue
        beside = subject.around.modules_beside(module.name, folders)
        near = get_close_matches(module.name, beside, n=1, cutoff=0.6)
        # A warning only: nodes may have others, one that is loaded before may bring more, and scripts go on.
        what = f"there is no module {module.name} on MODULEPATH here"
        fix = f"did you mean {near[0]}?" if near else None
        yield Finding(rule="missing-module", what=what, line=module.line, fix=fix)


def _has_module_system(subject: Subject) -> bool:
    around = subject.around
    return any(around.environment.get(name) for name in _MODULE_VARIABLES) or any(
        around.kind(file) != "nothing" for file in _MODULE_FILES
    )


RULES = (programs, modules)
AT_START = (interpreter,)
