"""Rules about the text: what sbatch refuses or does not read, whatever the script does."""

from __future__ import annotations

import re
from collections.abc import Iterator

from forewarn.assess.assessment import Finding
from forewarn.assess.script.subject import Subject

_PLACEHOLDER = re.compile(
    r"<[A-Za-z][\w .-]*>|\bYOUR[_-]?\w+|\byour_\w+|\bx{3,}\b|\bX{3,}\b|\bCHANGE[_-]?ME\b|/path/to/"
    r"|\bREPLACE_\w+|\bFIXME\b|\bTODO\b|\bdef-someuser\b|\bproject_x+\b"
)
# Of the options that name something; a job may well be called `xxx`, a comment may say TODO.
_NAMING_WORDS = """
    account partition qos reservation output error input chdir mail-user nodelist exclude constraint gres
    time mem nodes ntasks licenses container
"""
_NAMING = frozenset(_NAMING_WORDS.split())
_IN_BODY = re.compile(
    r"/path/to/|\bYOUR_\w+|\bCHANGE[_-]?ME\b|\bREPLACE_\w+|<(?:your|project|path|user|input)[\w -]*>"
)


def line_ends(subject: Subject) -> Iterator[Finding]:
    """Windows' line ends: sbatch refuses them."""
    text = subject.script.text
    if "\r\n" in text or "\r" in text.partition("\n")[0]:
        line = text[: text.index("\r")].count("\n") + 1
        what = "Windows line ends: sbatch refuses the script"
        fix = f"dos2unix {subject.path.name}"
        yield Finding(rule="windows-line-ends", what=what, line=line, severity="error", fix=fix)


def zero_bytes(subject: Subject) -> Iterator[Finding]:
    """A script with NUL bytes is no text."""
    if "\0" in subject.script.text:
        line = subject.script.text.partition("\0")[0].count("\n") + 1
        yield Finding(rule="not-text", what="a NUL byte: sbatch refuses it", line=line, severity="error")


def shebang(subject: Subject) -> Iterator[Finding]:
    """The first line must name an interpreter."""
    text = subject.script.text
    if not text.strip():
        yield Finding(rule="empty-script", what="the script is empty: sbatch refuses it", severity="error")
    elif not text.startswith("#!"):
        at = next((n for n, line in enumerate(text.split("\n"), 1) if line.lstrip().startswith("#!")), None)
        what = "the first line is not #! and an interpreter: sbatch refuses the script"
        if at:
            what += f" (line {at} has one: it must be the first, from its first column on)"
        fix = "begin with #!/bin/bash"
        yield Finding(rule="missing-shebang", what=what, line=1, severity="error", fix=fix)


def ignored_options(subject: Subject) -> Iterator[Finding]:
    """Options behind the first command are comments."""
    lines = subject.script.text.split("\n")
    for line in subject.script.directives.ignored:
        first = subject.script.directives.first_command
        what = (
            f"{lines[line - 1].strip()!r} stands behind the first command (line {first}): sbatch ignores it"
        )
        yield Finding(rule="ignored-option", what=what, line=line, fix="move it above the first command")


def lookalikes(subject: Subject) -> Iterator[Finding]:
    """What looks like an option and is a comment. ``##SBATCH`` is how people switch one off: only a note."""
    lines = subject.script.text.split("\n")
    for line in subject.script.directives.lookalikes:
        meant = lines[line - 1].startswith("##")
        what = f"{lines[line - 1].strip()!r} is a comment to sbatch: only #SBATCH at the line's begin counts"
        severity = "note" if meant else "warning"
        yield Finding(rule="not-read", what=what, line=line, severity=severity)


def placeholders(subject: Subject) -> Iterator[Finding]:
    """Words of a template that nobody filled in."""
    for given in subject.script.options.given:
        match = _PLACEHOLDER.search(given.value or "") if given.option in _NAMING else None
        if match:
            what = f"{given.spelled} is still {given.value!r}: a placeholder"
            yield Finding(rule="placeholder", what=what, line=given.line, fix="fill it in")
    for number, line in enumerate(subject.script.text.split("\n"), 1):
        if not line.lstrip().startswith("#") and (match := _IN_BODY.search(line[:2000])):
            what = f"{match[0]!r} looks like a placeholder"
            yield Finding(rule="placeholder", what=what, line=number, fix="fill it in")


def other_schedulers(subject: Subject) -> Iterator[Finding]:
    """Lines for PBS or LSF: sbatch reads some of them, silently."""
    for number, line in enumerate(subject.script.text.split("\n"), 1):
        if re.match(r"#(?:PBS|BSUB)\s", line) and "ignore-pbs" not in subject.script.options:
            kind = line[1:].split()[0]
            what = (
                f"a line for another scheduler (#{kind}): sbatch reads it, too, and may take options from it"
            )
            fix = "delete it, or submit with --ignore-pbs"
            yield Finding(rule="other-scheduler", what=what, line=number, severity="note", fix=fix)
            return


RULES = (line_ends, zero_bytes, shebang, ignored_options, lookalikes, placeholders, other_schedulers)
