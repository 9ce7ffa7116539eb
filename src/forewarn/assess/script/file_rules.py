"""Rules about files: inputs that are not there, what may not be run, output that cannot be written."""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterator

from forewarn.assess.assessment import Finding
from forewarn.assess.finding_codes import FindingCode, FixCode
from forewarn.assess.script.script_context import ScriptContext
from forewarn.evidence import Value
from forewarn.job.arrays import task_numbers
from forewarn.job.sbatch.files import FileUse, Use
from forewarn.job.sbatch.getopt import GivenOption


def missing_files(context: ScriptContext) -> Iterator[Finding]:
    """What is read, run or entered must be there by then."""
    for use, place in _looked_at(context, Use.READ, Use.RUN, Use.SOURCE, Use.ENTER):
        if context.host.kind(place) != "nothing" or context.may_be_created(use, place):
            continue
        severity = "error" if use.sure and context.is_certain(use, place) else "warning"
        if context.script.request.dependency or _is_caught(context, use):
            severity = "note"  # as it should be: that job makes it, or the script expects it
        rule, code = _MISSING[use.use]
        values: dict[str, Value] = {"path": use.path}
        if use.use is Use.SOURCE:
            values["program"] = use.program
        if place != use.path:
            values["looked_for"] = place
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
    """Whether the line goes on with something else where its command fails: `cat a.txt || echo none`."""
    lines = context.script.text.splitlines()
    return not use.sure and use.line <= len(lines) and _CAUGHT.search(lines[use.line - 1]) is not None


_TASK = re.compile(r"\$(?:SLURM_ARRAY_TASK_ID\b|\{SLURM_ARRAY_TASK_ID\})")
_MOST_TASKS = 1000  # that are looked at


def missing_of_tasks(context: ScriptContext) -> Iterator[Finding]:
    """What each task of an array reads by its number."""
    tasks = task_numbers(context.script.request.array_tasks or "", _MOST_TASKS)
    named = [use for use in context.script.body.files if use.use in (Use.READ, Use.SOURCE, Use.RUN)]
    for use in (use for use in named if tasks and _TASK.search(use.path)):
        places = [context.place(_TASK.sub(str(task), use.path)) for task in tasks]
        gone = [
            p
            for p in places
            if p and context.host.kind(p) == "nothing" and not context.may_be_created(use, p)
        ]
        if gone and not context.script.request.dependency:
            yield Finding(
                rule="missing-input",
                code=FindingCode.MISSING_INPUT_OF_TASKS,
                values={
                    "path": gone[0],
                    "lacking": len(gone),
                    "tasks": len(tasks),
                    **context.possible_creator(use),
                },
                line=use.line,
            )


def permissions(context: ScriptContext) -> Iterator[Finding]:
    """What is there must be allowed."""
    for use, place in _looked_at(context, Use.READ, Use.RUN, Use.SOURCE, Use.ENTER):
        kind = context.host.kind(place)
        severity = "error" if use.sure and context.is_shared(place) else "warning"
        fix = None
        if kind == "file" and use.use is Use.RUN and context.host.may(place, "x") is False:
            rule, code, fix = "not-executable", FindingCode.NOT_EXECUTABLE, FixCode.MAKE_EXECUTABLE
        elif kind == "file" and use.use in (Use.READ, Use.SOURCE) and context.host.may(place, "r") is False:
            rule, code = "no-permission", FindingCode.NOT_READABLE
        elif kind == "folder" and use.use is Use.ENTER and context.host.may(place, "x") is False:
            rule, code = "no-permission", FindingCode.FOLDER_NOT_ENTERABLE
        elif kind == "folder" and use.use is Use.RUN:
            rule, code = "not-executable", FindingCode.FOLDER_AS_PROGRAM
        else:
            continue
        values = {"path": use.path}
        yield Finding(rule=rule, code=code, values=values, line=use.line, severity=severity, fix=fix)


def unwritable(context: ScriptContext) -> Iterator[Finding]:
    """Where the script writes, there must be a folder that may be written to."""
    for use, place in _looked_at(context, Use.WRITE):
        if use.program in ("cp", "mv", "rsync", "ln", "scp") and context.host.kind(place) == "folder":
            place = f"{place}/x"
        if (code := _cannot_write(context, place, use)) is not None:
            yield Finding(
                rule="unwritable-output",
                code=code,
                values={"path": use.path, "folder": os.path.dirname(place)},  # noqa: PTH120
                line=use.line,
                severity="error" if use.sure and context.is_certain(use, place) else "warning",
            )


def _cannot_write(context: ScriptContext, place: str, use: FileUse) -> FindingCode | None:
    folder = os.path.dirname(place)  # noqa: PTH120 - text, not a look at a file
    kind = context.host.kind(folder)
    if kind == "nothing":
        return None if context.may_be_created(use, folder) else FindingCode.NO_FOLDER_TO_WRITE_TO
    if context.host.kind(place) == "file":
        return FindingCode.FILE_NOT_WRITABLE if context.host.may(place, "w") is False else None
    if kind == "folder" and context.host.may(folder, "w") is False:
        return FindingCode.FOLDER_NOT_WRITABLE
    return None


# Slurm makes the folders of a job's output where they are missing: 24.11 and 26.05 do, 22.05 does not.
_MAKES, _MAKES_NOT = (24, 11), (22, 5)


def job_output(context: ScriptContext) -> Iterator[Finding]:
    """The job's own output and input: where they cannot be opened, the job fails without a word."""
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
        place = os.path.normpath(os.path.join(context.folder, folder))  # noqa: PTH118
        kind = context.host.kind(place)
        if kind == "nothing":
            yield from _no_folder(context, given, place, is_input=option == "input")
        elif kind == "folder" and option != "input" and context.host.may(place, "w") is False:
            yield Finding(
                rule="unwritable-output",
                code=FindingCode.OUTPUT_FOLDER_NOT_WRITABLE,
                values={"spelled": given.spelled, "value": given.value, "folder": place},
                line=given.line,
                severity=_severity(context, place),
            )


def _no_folder(
    context: ScriptContext, given: GivenOption, place: str, *, is_input: bool
) -> Iterator[Finding]:
    """Whether that ends the job depends on the version of Slurm."""
    version, above = context.host.slurm, None
    if is_input:
        then = "ends"
        later = context.script.request.dependency or context.begins_later
        severity = "warning" if later else _severity(context, place)
    elif (above := _above(context, place)) is not None and context.host.may(above, "w") is False:
        then = "cannot_be_made"
        severity = _severity(context, place)
    elif version is not None and version >= _MAKES:
        return
    elif version is not None and version <= _MAKES_NOT:
        then = "ends_without_output"
        severity = _severity(context, place)
    else:
        then = "ends_by_version"
        severity = "warning"
    values = {"spelled": given.spelled, "value": given.value, "folder": place, "then": then, "above": above}
    yield Finding(
        rule="missing-output-folder",
        code=FindingCode.MISSING_OUTPUT_FOLDER,
        values=values,
        line=given.line,
        severity=severity,
        fix=FixCode.MAKE_FOLDER,
    )


def _severity(context: ScriptContext, place: str) -> str:
    return "error" if context.is_shared(place) else "warning"


def _above(context: ScriptContext, place: str) -> str | None:
    """The nearest folder above that is there."""
    while place not in ("", "/"):
        place = os.path.dirname(place)  # noqa: PTH120
        if context.host.kind(place) == "folder":
            return place
    return None


def work_folder(context: ScriptContext) -> Iterator[Finding]:
    """Where the job begins."""
    given = context.script.options.get("chdir")
    if given is not None and context.host.kind(context.folder) == "nothing":
        yield Finding(
            rule="missing-folder",
            code=FindingCode.MISSING_WORK_FOLDER,
            values={"spelled": given.spelled, "value": given.value},
            line=given.line,
        )


def _looked_at(context: ScriptContext, *kinds: Use) -> Iterator[tuple[FileUse, str]]:
    seen = set[tuple[Use, str]]()
    for use in context.script.body.files:
        place = context.place(use.path) if use.use in kinds and "://" not in use.path else None
        if place is None or place.startswith(("/dev/", "/proc/", "/sys/")) or (use.use, place) in seen:
            continue
        seen.add((use.use, place))
        yield use, place


RULES = (missing_files, missing_of_tasks, permissions, unwritable)
AT_START = (job_output, work_folder)
