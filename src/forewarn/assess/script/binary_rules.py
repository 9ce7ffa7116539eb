"""Rules on compiled programs: built for another processor, or with missing libraries."""

from __future__ import annotations

import os.path
from collections.abc import Iterator

from forewarn.assess.assessment import Finding
from forewarn.assess.finding_codes import FindingCode, FixCode
from forewarn.assess.script.script_context import LARGEST_PROGRAM, ScriptContext
from forewarn.evidence import Values
from forewarn.job.sbatch.files import Use
from forewarn.local_host.elf import Program, read_program

_SAME = {"amd64": "x86_64", "arm64": "aarch64", "i686": "i386", "i586": "i386"}
_RUNS_TOO = {("x86_64", "i386")}


def binaries(context: ScriptContext) -> Iterator[Finding]:
    """Check every program that is called by its path."""
    checked = set[str]()
    for use in context.script.body.files:
        full_path = context.resolve(use.path) if use.use is Use.RUN else None
        if full_path is None or full_path in checked:
            continue
        checked.add(full_path)
        data = context.host.head(full_path, LARGEST_PROGRAM)
        program = read_program(data) if data else None
        if data is not None and program is None:
            yield from _script(context, use.path, use.line, data)
        elif program is not None:
            yield from _architecture(context, use.path, use.line, program)
            yield from _libraries(context, use.path, use.line, full_path, program)


def _script(context: ScriptContext, path: str, line: int, data: bytes) -> Iterator[Finding]:
    first = data[:256].split(b"\n")[0]
    if first.startswith(b"#!"):
        words = first[2:].decode("utf-8", "replace").split()
        if first.endswith(b"\r"):
            code = FindingCode.PROGRAM_WITH_WINDOWS_LINE_ENDS
            yield _error("windows-line-ends", code, {"path": path}, line)
        elif words and context.host.path_type(words[0]) == "nothing":
            code = FindingCode.PROGRAM_WITHOUT_INTERPRETER
            yield _error("missing-interpreter", code, {"path": path, "interpreter": words[0]}, line)


def _architecture(context: ScriptContext, path: str, line: int, program: Program) -> Iterator[Finding]:
    local = context.host.architecture
    local = _SAME.get(local, local) if local else None
    if local is None or program.machine == local or (local, program.machine) in _RUNS_TOO:
        return
    values = {"path": path, "architecture": program.machine, "here": local}
    code, fix = FindingCode.WRONG_ARCHITECTURE, FixCode.COMPILE_FOR_NODES
    yield _error("wrong-architecture", code, values, line, fix)


def _libraries(
    context: ScriptContext, path: str, line: int, full_path: str, program: Program
) -> Iterator[Finding]:
    # A module or environment may add libraries that are not visible now.
    if context.changes_programs or program.interpreter is None:
        return
    if context.host.architecture not in (program.machine, None):
        return
    origin = os.path.dirname(full_path)  # noqa: PTH120
    folders = [f.replace("${ORIGIN}", origin).replace("$ORIGIN", origin) for f in program.folders if f]
    folders += [f for f in context.host.environment.get("LD_LIBRARY_PATH", "").split(":") if f]
    missing = [name for name in program.needed if context.host.has_library(name, folders) is False]
    if missing:
        values: Values = {"path": path, "libraries": tuple(missing)}
        yield _error("missing-library", FindingCode.MISSING_LIBRARY, values, line, FixCode.LOAD_LIBRARY)


def _error(rule: str, code: FindingCode, values: Values, line: int, fix: FixCode | None = None) -> Finding:
    return Finding(rule=rule, code=code, values=values, line=line, severity="error", fix=fix)


RULES = (binaries,)
