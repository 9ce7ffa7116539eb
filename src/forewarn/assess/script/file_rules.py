"""Rules about files: inputs that are not there, what may not be run, output that cannot be written."""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterator

from forewarn.assess.assessment import Finding
from forewarn.assess.script.subject import Subject
from forewarn.job.sbatch.files import FileUse, Use


def missing_files(subject: Subject) -> Iterator[Finding]:
    """What is read, run or entered must be there by then."""
    for use, place in _looked_at(subject, Use.READ, Use.RUN, Use.SOURCE, Use.ENTER):
        if subject.around.kind(place) != "nothing" or subject.is_made(use, place):
            continue
        severity = "error" if use.sure else "warning"
        if use.use is Use.RUN:
            finding = ("missing-program", f"{use.path} does not exist")
        elif use.use is Use.ENTER:
            finding = ("missing-folder", f"the folder {use.path} does not exist")
        elif use.use is Use.SOURCE:
            finding = (
                "missing-input",
                f"{use.program or 'the script'} is given {use.path}, which does not exist",
            )
        else:
            finding = ("missing-input", f"{use.path} does not exist")
        at = "" if place == use.path else f" (looked for {place})"
        yield Finding(rule=finding[0], what=finding[1] + at, line=use.line, severity=severity)


def permissions(subject: Subject) -> Iterator[Finding]:
    """What is there must be allowed."""
    for use, place in _looked_at(subject, Use.READ, Use.RUN, Use.SOURCE, Use.ENTER):
        kind = subject.around.kind(place)
        severity = "error" if use.sure else "warning"
        if kind == "file" and use.use is Use.RUN and subject.around.may(place, "x") is False:
            what = f"{use.path} may not be executed"
            fix = f"chmod +x {use.path}"
            yield Finding(rule="not-executable", what=what, line=use.line, severity=severity, fix=fix)
        elif kind == "file" and use.use in (Use.READ, Use.SOURCE) and subject.around.may(place, "r") is False:
            what = f"{use.path} may not be read"
            yield Finding(rule="no-permission", what=what, line=use.line, severity=severity)
        elif kind == "folder" and use.use is Use.ENTER and subject.around.may(place, "x") is False:
            what = f"the folder {use.path} may not be entered"
            yield Finding(rule="no-permission", what=what, line=use.line, severity=severity)
        elif kind == "folder" and use.use is Use.RUN:
            what = f"{use.path} is a folder, not a program"
            yield Finding(rule="not-executable", what=what, line=use.line, severity=severity)


def unwritable(subject: Subject) -> Iterator[Finding]:
    """Where the script writes, there must be a folder that may be written to."""
    for use, place in _looked_at(subject, Use.WRITE):
        if use.program in ("cp", "mv", "rsync", "ln", "scp") and subject.around.kind(place) == "folder":
            place = f"{place}/x"
        if (what := _cannot_write(subject, place, use)) is not None:
            severity = "error" if use.sure else "warning"
            yield Finding(rule="unwritable-output", what=what, line=use.line, severity=severity)


def _cannot_write(subject: Subject, place: str, use: FileUse) -> str | None:
    folder = os.path.dirname(place)  # noqa: PTH120 - text, not a look at a file
    kind = subject.around.kind(folder)
    if kind == "nothing":
        return None if subject.is_made(use, folder) else f"{use.path}: there is no folder {folder}"
    if subject.around.kind(place) == "file":
        return f"{use.path} may not be written to" if subject.around.may(place, "w") is False else None
    if kind == "folder" and subject.around.may(folder, "w") is False:
        return f"{use.path}: the folder {folder} may not be written to"
    return None


def job_output(subject: Subject) -> Iterator[Finding]:
    """The job's own output: where its folder is missing, the job fails without a word."""
    options = subject.script.options
    for option in ("output", "error", "input"):
        given = options.get(option)
        if given is None or not given.value or given.value.lower() in ("none", "/dev/null"):
            continue
        folder = os.path.dirname(given.value)  # noqa: PTH120
        if "%" in folder or not re.fullmatch(r"[^$`*]*", given.value):
            if re.search(r"\$\{?\w", given.value):
                what = f"{given.spelled} {given.value}: sbatch fills in no variables, only %j and its like"
                yield Finding(rule="variable-in-option", what=what, line=given.line)
            continue
        place = os.path.normpath(os.path.join(subject.folder, folder))  # noqa: PTH118
        kind = subject.around.kind(place)
        if kind == "nothing":
            what = (
                f"{given.spelled} {given.value}: there is no folder {place}: the job fails without any output"
            )
            fix = f"mkdir -p {place}"
            yield Finding(rule="missing-output-folder", what=what, line=given.line, severity="error", fix=fix)
        elif kind == "folder" and option != "input" and subject.around.may(place, "w") is False:
            what = f"{given.spelled} {given.value}: the folder {place} may not be written to"
            yield Finding(rule="unwritable-output", what=what, line=given.line, severity="error")


def work_folder(subject: Subject) -> Iterator[Finding]:
    """Where the job begins."""
    given = subject.script.options.get("chdir")
    if given is not None and subject.around.kind(subject.folder) == "nothing":
        what = f"{given.spelled} {given.value}: there is no such folder; the job begins in /tmp instead"
        yield Finding(rule="missing-folder", what=what, line=given.line, severity="error")


def _looked_at(subject: Subject, *kinds: Use) -> Iterator[tuple[FileUse, str]]:
    seen = set[tuple[Use, str]]()
    for use in subject.script.body.files:
        place = subject.place(use.path) if use.use in kinds and "://" not in use.path else None
        if place is None or place.startswith(("/dev/", "/proc/", "/sys/")) or (use.use, place) in seen:
            continue
        seen.add((use.use, place))
        yield use, place


RULES = (missing_files, permissions, unwritable, job_output, work_folder)
