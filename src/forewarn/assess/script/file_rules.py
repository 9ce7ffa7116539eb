"""Rules on files: missing inputs, missing permissions, output that cannot be written."""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterator
from itertools import islice

from forewarn.assess.assessment import Finding
from forewarn.assess.finding_codes import FindingCode, FixCode
from forewarn.assess.script.script_context import ScriptContext
from forewarn.evidence import Value
from forewarn.job.array_tasks import task_numbers
from forewarn.job.sbatch.files import FileUse, Use
from forewarn.job.sbatch.getopt import GivenOption


def missing_files(context: ScriptContext) -> Iterator[Finding]:
    """Find files and folders that are read, run or entered and do not exist."""
    for use, full_path in _files_used(context, Use.READ, Use.RUN, Use.SOURCE, Use.ENTER):
        if context.host.path_type(full_path) != "nothing" or context.may_be_created(use, full_path):
            continue
        severity = "error" if use.sure and context.is_certain(use, full_path) else "warning"
        if context.script.request.dependency or _is_caught(context, use):
            severity = "note"  # as intended: the job before creates it, or the script handles the error
        rule, code = _MISSING[use.use]
        values: dict[str, Value] = {"path": use.path}
        if use.use is Use.SOURCE:
            values["program"] = use.program
        if full_path != use.path:
            values["looked_for"] = full_path
        values |= context.possible_creator(use)
        yield Finding(rule=rule, code=code, values=values, line=use.line, severity=severity)


_MISSING = {
    Use.RUN: ("missing-program", FindingCode.MISSING_PROGRAM_FILE),
    Use.ENTER: ("missing-folder", FindingCode.MISSING_FOLDER),
    Use.SOURCE: ("missing-input", FindingCode.MISSING_ARGUMENT),
    Use.READ: ("missing-input", FindingCode.MISSING_INPUT),
}


_CAUGHT = re.compile(r"\|\|\s*(?!exit\b|return\b|false\b|kill\b|[{(\s])")


def _is_caught(context: ScriptContext, use: FileUse) -> bool:
    """Check whether the line handles the failure of its command: `cat a.txt || echo none`."""
    lines = context.script.text.splitlines()
    return not use.sure and use.line <= len(lines) and _CAUGHT.search(lines[use.line - 1]) is not None


_TASK = re.compile(r"\$(?:SLURM_ARRAY_TASK_ID\b|\{SLURM_ARRAY_TASK_ID\})")
_MOST_TASKS = 1000  # that are checked
_MOST_PATHS = 20_000  # of all tasks and files together


def missing_of_tasks(context: ScriptContext) -> Iterator[Finding]:
    """Find inputs of array tasks, named by the task id, that do not exist."""
    tasks = task_numbers(context.script.request.array_tasks or "", _MOST_TASKS)
    if not tasks:
        return
    first_uses: dict[str, FileUse] = {}
    for use in context.script.body.files:
        if use.use in (Use.READ, Use.SOURCE, Use.RUN) and _TASK.search(use.path):
            first_uses.setdefault(use.path, use)
    for use in islice(first_uses.values(), _MOST_PATHS // len(tasks)):
        full_paths = [context.resolve(_TASK.sub(str(task), use.path)) for task in tasks]
        missing = [
            p
            for p in full_paths
            if p and context.host.path_type(p) == "nothing" and not context.may_be_created(use, p)
        ]
        if missing and not context.script.request.dependency:
            yield Finding(
                rule="missing-input",
                code=FindingCode.MISSING_INPUT_OF_TASKS,
                values={
                    "path": missing[0],
                    "lacking": len(missing),
                    "tasks": len(tasks),
                    **context.possible_creator(use),
                },
                line=use.line,
            )


def permissions(context: ScriptContext) -> Iterator[Finding]:
    """Find files and folders that exist but may not be read, executed or entered."""
    for use, full_path in _files_used(context, Use.READ, Use.RUN, Use.SOURCE, Use.ENTER):
        path_type = context.host.path_type(full_path)
        severity = "error" if use.sure and context.is_shared(full_path) else "warning"
        fix = None
        if path_type == "file" and use.use is Use.RUN and context.host.may_access(full_path, "x") is False:
            rule, code, fix = "not-executable", FindingCode.NOT_EXECUTABLE, FixCode.MAKE_EXECUTABLE
        elif (
            path_type == "file"
            and use.use in (Use.READ, Use.SOURCE)
            and context.host.may_access(full_path, "r") is False
        ):
            rule, code = "no-permission", FindingCode.NOT_READABLE
        elif (
            path_type == "folder"
            and use.use is Use.ENTER
            and context.host.may_access(full_path, "x") is False
        ):
            rule, code = "no-permission", FindingCode.FOLDER_NOT_ENTERABLE
        elif path_type == "folder" and use.use is Use.RUN:
            rule, code = "not-executable", FindingCode.FOLDER_AS_PROGRAM
        else:
            continue
        values = {"path": use.path}
        yield Finding(rule=rule, code=code, values=values, line=use.line, severity=severity, fix=fix)


def unwritable(context: ScriptContext) -> Iterator[Finding]:
    """Find outputs of the script whose folder is missing or not writable."""
    for use, full_path in _files_used(context, Use.WRITE):
        if (
            use.program in ("cp", "mv", "rsync", "ln", "scp")
            and context.host.path_type(full_path) == "folder"
        ):
            full_path = f"{full_path}/x"
        if (code := _cannot_write(context, full_path, use)) is not None:
            yield Finding(
                rule="unwritable-output",
                code=code,
                values={"path": use.path, "folder": os.path.dirname(full_path)},  # noqa: PTH120
                line=use.line,
                severity="error" if use.sure and context.is_certain(use, full_path) else "warning",
            )


def _cannot_write(context: ScriptContext, full_path: str, use: FileUse) -> FindingCode | None:
    folder = os.path.dirname(full_path)  # noqa: PTH120 - text, not a look at a file
    path_type = context.host.path_type(folder)
    if path_type == "nothing":
        return None if context.may_be_created(use, folder) else FindingCode.NO_FOLDER_TO_WRITE_TO
    if context.host.path_type(full_path) == "file":
        return FindingCode.FILE_NOT_WRITABLE if context.host.may_access(full_path, "w") is False else None
    if path_type == "folder" and context.host.may_access(folder, "w") is False:
        return FindingCode.FOLDER_NOT_WRITABLE
    return None


# Slurm 24.11 and 26.05 create missing folders of a job's output, 22.05 does not.
_CREATES_FOLDERS, _CREATES_NO_FOLDERS = (24, 11), (22, 5)


def job_output(context: ScriptContext) -> Iterator[Finding]:
    """Check the job's own output and input: where they cannot be opened, the job fails without a message."""
    options = context.script.options
    for option in ("output", "error", "input"):
        given = options.get(option)
        if given is None or not given.value or given.value.lower() in ("none", "/dev/null"):
            continue
        folder = os.path.dirname(given.value)  # noqa: PTH120
        if "%" in folder or not re.fullmatch(r"[^$`*]*", given.value):
            if re.search(r"\$\{?\w", given.value):
                yield Finding(
                    rule="variable-in-option",
                    code=FindingCode.VARIABLE_IN_OPTION,
                    values={"spelled": given.spelled, "value": given.value},
                    line=given.line,
                )
            continue
        full_path = os.path.normpath(os.path.join(context.folder, folder))  # noqa: PTH118
        path_type = context.host.path_type(full_path)
        if path_type == "nothing":
            yield from _no_folder(context, given, full_path, is_input=option == "input")
        elif path_type == "folder" and option != "input" and context.host.may_access(full_path, "w") is False:
            yield Finding(
                rule="unwritable-output",
                code=FindingCode.OUTPUT_FOLDER_NOT_WRITABLE,
                values={"spelled": given.spelled, "value": given.value, "folder": full_path},
                line=given.line,
                severity=_severity(context, full_path),
            )


def _no_folder(
    context: ScriptContext, given: GivenOption, full_path: str, *, is_input: bool
) -> Iterator[Finding]:
    """Report a missing folder; whether it fails the job depends on the version of Slurm."""
    version, above = context.host.slurm, None
    if is_input:
        then = "ends"
        later = context.script.request.dependency or context.begins_later
        severity = "warning" if later else _severity(context, full_path)
    elif (above := _above(context, full_path)) is not None and context.host.may_access(above, "w") is False:
        then = "cannot_be_made"
        severity = _severity(context, full_path)
    elif version is not None and version >= _CREATES_FOLDERS:
        return
    elif version is not None and version <= _CREATES_NO_FOLDERS:
        then = "ends_without_output"
        severity = _severity(context, full_path)
    else:
        then = "ends_by_version"
        severity = "warning"
    values = {
        "spelled": given.spelled,
        "value": given.value,
        "folder": full_path,
        "then": then,
        "above": above,
    }
    yield Finding(
        rule="missing-output-folder",
        code=FindingCode.MISSING_OUTPUT_FOLDER,
        values=values,
        line=given.line,
        severity=severity,
        fix=FixCode.MAKE_FOLDER,
    )


def _severity(context: ScriptContext, full_path: str) -> str:
    return "error" if context.is_shared(full_path) else "warning"


def _above(context: ScriptContext, full_path: str) -> str | None:
    """Return the nearest existing parent folder."""
    while full_path not in ("", "/"):
        full_path = os.path.dirname(full_path)  # noqa: PTH120
        if context.host.path_type(full_path) == "folder":
            return full_path
    return None


def work_folder(context: ScriptContext) -> Iterator[Finding]:
    """Find a `--chdir` folder that does not exist."""
    given = context.script.options.get("chdir")
    if given is not None and context.host.path_type(context.folder) == "nothing":
        yield Finding(
            rule="missing-folder",
            code=FindingCode.MISSING_WORK_FOLDER,
            values={"spelled": given.spelled, "value": given.value},
            line=given.line,
        )


def _files_used(context: ScriptContext, *uses: Use) -> Iterator[tuple[FileUse, str]]:
    """Yield each file once for each of these uses, with its full path."""
    seen = set[tuple[Use, str]]()
    for use in context.script.body.files:
        full_path = context.resolve(use.path) if use.use in uses and "://" not in use.path else None
        if (
            full_path is None
            or full_path.startswith(("/dev/", "/proc/", "/sys/"))
            or (use.use, full_path) in seen
        ):
            continue
        seen.add((use.use, full_path))
        yield use, full_path


RULES = (missing_files, missing_of_tasks, permissions, unwritable)
AT_START = (job_output, work_folder)
