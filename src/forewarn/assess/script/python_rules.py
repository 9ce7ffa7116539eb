"""Rules about Python: the environment that is named, and what it lacks."""

from __future__ import annotations

import os.path
from collections.abc import Iterator

from forewarn.assess.assessment import Finding
from forewarn.assess.finding_codes import FindingCode, FixCode
from forewarn.assess.script.python_code import changes_path, imported_surely, parsed
from forewarn.assess.script.script_context import ScriptContext
from forewarn.job.sbatch.body import Environment, language_of
from forewarn.job.sbatch.calls import Call
from forewarn.job.sbatch.files import script_of
from forewarn.local_host.local_host import CONDA_ROOTS

_READ = 1 << 20
_INSTALLERS = frozenset(
    {
        "pip",
        "pip3",
        "uv",
        "install",
        "venv",
        "virtualenv",
        "create",
        "sync",
        "spack",
        "eval",
        "poetry",
        "pixi",
    }
)


def missing_environment(context: ScriptContext) -> Iterator[Finding]:
    """An environment that is activated and not there."""
    for environment in context.script.body.environments:
        if environment.kind == "conda" and not _may_have_conda(context, environment.name):
            yield Finding(
                rule="missing-environment",
                code=FindingCode.NO_CONDA,
                values={"environment": environment.name},
                line=environment.line,
            )
            continue
        folder = _folder(context, environment)
        # A module may bring another conda, with environments of its own.
        by_name = environment.kind == "conda" and "/" not in environment.name
        if folder is None or environment.kind == "uv" or (by_name and context.script.body.modules):
            continue
        if context.host.kind(folder) == "nothing":
            yield Finding(
                rule="missing-environment",
                code=FindingCode.MISSING_ENVIRONMENT,
                values={"folder": folder},
                line=environment.line,
                severity="error",
            )


def _may_have_conda(context: ScriptContext, name: str) -> bool:
    """Whether there is one, or something in the script may bring it."""
    if context.script.body.modules or context.runs_other_scripts:
        return True
    host, home = context.host, context.host.environment.get("HOME", "")
    return (
        host.environments(name) is not None
        or any(host.which(program) for program in ("conda", "mamba", "micromamba"))
        or any(host.kind(f"{home}/{root}") != "nothing" for root in CONDA_ROOTS)
    )


def broken_python(context: ScriptContext) -> Iterator[Finding]:
    """A script that this Python cannot parse."""
    for call, place in _scripts(context):
        source = context.host.head(place, _READ)
        if source is not None and len(source) < _READ and parsed(source) is None:
            values = {"path": script_of(call)}
            yield Finding(rule="python-syntax", code=FindingCode.PYTHON_SYNTAX, values=values, line=call.line)


def missing_imports(context: ScriptContext) -> Iterator[Finding]:
    """Packages that the script imports and its Python does not find."""
    for call, place in _scripts(context):
        tree = parsed(context.host.head(place, _READ))
        python = _python(context, call)
        if tree is None or python is None or changes_path(tree) or _brings_packages(context, call.line):
            continue
        folder = os.path.dirname(place)  # noqa: PTH120 - text, not a look at a file
        names = {
            name: line
            for name, line in imported_surely(tree).items()
            if context.host.kind(f"{folder}/{name}.py") == "nothing"
            and context.host.kind(f"{folder}/{name}") == "nothing"
        }
        for name in sorted(context.host.missing_packages(python, sorted(names)) or () if names else ()):
            yield Finding(
                rule="missing-import",
                code=FindingCode.MISSING_IMPORT,
                values={
                    "path": script_of(call),
                    "package": name,
                    "its_line": names[name],
                    "python": python,
                },
                line=call.line,
                severity="error",
                fix=FixCode.INSTALL_PACKAGE,
            )


def missing_run(context: ScriptContext) -> Iterator[Finding]:
    """`python3 -m tool` of a package that its Python does not find."""
    for call in context.script.body.calls:
        words = call.arguments
        name = words[words.index("-m") + 1].partition(".")[0] if "-m" in words[:-1] else ""
        if language_of(call.program) != "python" or call.image is not None or not name.isidentifier():
            continue
        python, here = _python(context, call), context.place(_inside(context, call, name))
        if python is None or here is None or _brings_packages(context, call.line):
            continue
        host = context.host
        if any(host.kind(place) != "nothing" for place in (here, f"{here}.py")):
            continue
        if host.missing_packages(python, [name]):
            yield Finding(
                rule="missing-import",
                code=FindingCode.MISSING_PACKAGE,
                values={"program": call.name, "package": name, "python": python},
                line=call.line,
                severity="error",
            )


def itself(context: ScriptContext) -> Iterator[Finding]:
    """A batch script that is Python itself."""
    body = context.script.body
    if body.is_shell or body.language != "python" or body.interpreter is None:
        return
    tree = parsed(context.script.text.encode("utf-8", "surrogateescape"))
    if tree is None:
        yield Finding(rule="python-syntax", code=FindingCode.SCRIPT_IS_NOT_PYTHON, line=1)
        return
    python = body.interpreter if "/" in body.interpreter else context.host.which(body.interpreter)
    names = {} if changes_path(tree) else imported_surely(tree)
    for name in sorted(
        context.host.missing_packages(python, sorted(names)) or () if python and names else ()
    ):
        yield Finding(
            rule="missing-import",
            code=FindingCode.MISSING_OWN_IMPORT,
            values={"package": name, "python": python},
            line=names[name],
            severity="error",
        )


def _scripts(context: ScriptContext) -> Iterator[tuple[Call, str]]:
    """Calls of Python with a script that can be looked at."""
    for call in context.script.body.calls:
        if language_of(call.program) != "python" or call.image is not None:
            continue
        script = script_of(call)
        if script and script.endswith(".py") and (place := context.place(_inside(context, call, script))):
            yield call, place


def _inside(context: ScriptContext, call: Call, script: str) -> str:
    """The script with the folder that the job has gone to by then."""
    uses = [f.path for f in context.script.body.files if f.line == call.line and f.path.endswith(script)]
    return uses[0] if uses else script


def _brings_packages(context: ScriptContext, line: int) -> bool:
    """Whether a module, a variable or an installation before this line may bring what is not there now."""
    body = context.script.body
    return (
        bool(body.modules)
        or any(
            name.startswith("PYTHON")
            for command in body.commands
            if command.line <= line
            for name, _ in command.variables
        )
        or any(_INSTALLERS & {call.name, *call.arguments} for call in body.calls if call.line < line)
    )


def _folder(context: ScriptContext, environment: Environment) -> str | None:
    """Where an environment is; None where that cannot be told."""
    if environment.kind == "conda" and "/" not in environment.name:
        return context.host.environments(environment.name)
    return context.place(environment.name)


def _python(context: ScriptContext, call: Call) -> str | None:
    """The Python that will run; None where that cannot be told."""
    if "/" in call.program:
        return context.place(call.program)
    before = [e for e in context.script.body.environments if e.line <= call.line]
    if before:
        folder = _folder(context, before[-1])
        return f"{folder}/bin/python" if folder else None
    return None if context.changes_programs else context.host.which(call.program)


RULES = (missing_environment, broken_python, missing_imports, missing_run, itself)
