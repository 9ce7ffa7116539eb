"""Rules on Python: missing environments, syntax errors, missing packages."""

from __future__ import annotations

import os.path
from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache

from forewarn.assess.assessment import Finding
from forewarn.assess.finding_codes import FindingCode, FixCode
from forewarn.assess.script.python_code import changes_path, imported_surely, parsed
from forewarn.assess.script.script_context import LARGEST_PYTHON, ScriptContext
from forewarn.job.sbatch.body import Environment, language_of
from forewarn.job.sbatch.calls import Call
from forewarn.job.sbatch.files import script_of
from forewarn.local_host.local_host import CONDA_ROOTS


def missing_environment(context: ScriptContext) -> Iterator[Finding]:
    """Find activated environments that do not exist."""
    for environment in context.script.body.environments:
        if environment.tool == "conda" and not _may_have_conda(context, environment.name):
            yield Finding(
                rule="missing-environment",
                code=FindingCode.NO_CONDA,
                values={"environment": environment.name},
                line=environment.line,
            )
            continue
        folder = _folder(context, environment)
        # A module may add another conda, with environments of its own.
        by_name = environment.tool == "conda" and "/" not in environment.name
        if folder is None or environment.tool == "uv" or (by_name and context.script.body.modules):
            continue
        if context.host.path_type(folder) == "nothing":
            yield Finding(
                rule="missing-environment",
                code=FindingCode.MISSING_ENVIRONMENT,
                values={"folder": folder},
                line=environment.line,
                severity="error",
            )


def _may_have_conda(context: ScriptContext, name: str) -> bool:
    """Check whether conda is installed, or may be added by the script."""
    if context.script.body.modules or context.runs_other_scripts:
        return True
    host, home = context.host, context.host.environment.get("HOME", "")
    return (
        host.conda_environment(name) is not None
        or any(host.which(program) for program in ("conda", "mamba", "micromamba"))
        or any(host.path_type(f"{home}/{root}") != "nothing" for root in CONDA_ROOTS)
    )


def broken_python(context: ScriptContext) -> Iterator[Finding]:
    """Find Python scripts with syntax errors."""

    @lru_cache(maxsize=1000)  # one script may be called in every line
    def is_broken(path: str) -> bool:
        source = context.host.head(path, LARGEST_PYTHON)
        return source is not None and len(source) < LARGEST_PYTHON and parsed(source) is None

    for call, full_path in _scripts(context):
        if is_broken(full_path):
            values = {"path": script_of(call)}
            yield Finding(rule="python-syntax", code=FindingCode.PYTHON_SYNTAX, values=values, line=call.line)


def missing_imports(context: ScriptContext) -> Iterator[Finding]:
    """Find packages that a Python script imports and its interpreter does not find."""

    @lru_cache(maxsize=1000)
    def missing(path: str, python: str) -> dict[str, int]:
        tree = context.python_at(path)
        if tree is None or changes_path(tree):
            return {}
        folder = os.path.dirname(path)  # noqa: PTH120 - text, not a look at a file
        names = {
            name: line
            for name, line in imported_surely(tree).items()
            if context.host.path_type(f"{folder}/{name}.py") == "nothing"
            and context.host.path_type(f"{folder}/{name}") == "nothing"
        }
        found = context.host.missing_packages(python, sorted(names)) if names else None
        return {name: names[name] for name in sorted(found or ())}

    for call, full_path in _scripts(context):
        python = _python(context, call)
        if python is None or context.may_add_packages(call.line):
            continue
        for name, line in missing(full_path, python).items():
            yield Finding(
                rule="missing-import",
                code=FindingCode.MISSING_IMPORT,
                values={"path": script_of(call), "package": name, "its_line": line, "python": python},
                line=call.line,
                severity="error",
                fix=FixCode.INSTALL_PACKAGE,
            )


def missing_run(context: ScriptContext) -> Iterator[Finding]:
    """Find `python3 -m package` where the interpreter does not find the package."""
    for call in context.script.body.calls:
        words = call.arguments
        name = words[words.index("-m") + 1].partition(".")[0] if "-m" in words[:-1] else ""
        if language_of(call.program) != "python" or call.image is not None or not name.isidentifier():
            continue
        python, module = _python(context, call), context.resolve(_inside(context, call, name))
        if python is None or module is None or context.may_add_packages(call.line):
            continue
        host = context.host
        if any(host.path_type(full_path) != "nothing" for full_path in (module, f"{module}.py")):
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
    """Check a batch script that is itself written in Python."""
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
    """Yield calls of Python with a script that can be read, and its full path."""
    for call in context.script.body.calls:
        if language_of(call.program) != "python" or call.image is not None:
            continue
        script = script_of(call)
        if (
            script
            and script.endswith(".py")
            and (full_path := context.resolve(_inside(context, call, script)))
        ):
            yield call, full_path


def _inside(context: ScriptContext, call: Call, script: str) -> str:
    """Return the path of a script relative to the folder that the job has changed to by then."""
    uses = context.files_of_line.get(call.line, ())
    return next((use.path for use in uses if use.path.endswith(script)), script)


def _folder(context: ScriptContext, environment: Environment) -> str | None:
    """Return the folder of an environment; None where it is not known."""
    if environment.tool == "conda" and "/" not in environment.name:
        return context.host.conda_environment(environment.name)
    return context.resolve(environment.name)


def _python(context: ScriptContext, call: Call) -> str | None:
    """Return the Python interpreter of a call; None where it is not known."""
    if "/" in call.program:
        return context.resolve(call.program)
    environments = context.script.body.environments
    if before := bisect_right(environments, call.line, key=lambda environment: environment.line):
        folder = _folder(context, environments[before - 1])
        return f"{folder}/bin/python" if folder else None
    return None if context.changes_programs else context.host.which(call.program)


RULES = (missing_environment, broken_python, missing_imports, missing_run, itself)
