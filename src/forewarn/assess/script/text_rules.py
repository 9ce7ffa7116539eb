"""Rules on the text: what sbatch rejects or does not read, whatever the script does."""

from __future__ import annotations

import re
from collections.abc import Iterator

from forewarn.assess.assessment import Finding
from forewarn.assess.finding_codes import FindingCode, FixCode
from forewarn.assess.script.script_context import ScriptContext

_PLACEHOLDER = re.compile(
    r"<[A-Za-z][\w .-]*>|\bYOUR[_-]?\w+|\byour_\w+|\bx{3,}\b|\bX{3,}\b|\bCHANGE[_-]?ME\b|/path/to/"
    r"|\bREPLACE_\w+|\bFIXME\b|\bTODO\b|\bdef-someuser\b|\bproject_x+\b"
)
# Options whose value names something; a job may well be called `xxx`, and a comment may contain TODO.
_NAMING_WORDS = """
    account partition qos reservation output error input chdir mail-user nodelist exclude constraint gres
    time mem nodes ntasks licenses container
"""
_NAMING = frozenset(_NAMING_WORDS.split())
_IN_BODY = re.compile(
    r"/path/to/|\bYOUR_\w+|\bCHANGE[_-]?ME\b|\bREPLACE_\w+|<(?:your|project|path|user|input)[\w -]*>"
)


def line_ends(context: ScriptContext) -> Iterator[Finding]:
    """Find Windows line ends, which sbatch rejects."""
    text = context.script.text
    if "\r\n" in text or "\r" in text.partition("\n")[0]:
        line = text[: text.index("\r")].count("\n") + 1
        yield Finding(
            rule="windows-line-ends",
            code=FindingCode.WINDOWS_LINE_ENDS,
            values={"script": context.path.name},
            line=line,
            severity="error",
            fix=FixCode.CONVERT_LINE_ENDS,
        )


def zero_bytes(context: ScriptContext) -> Iterator[Finding]:
    """Find NUL bytes: the script is not text."""
    if "\0" in context.script.text:
        line = context.script.text.partition("\0")[0].count("\n") + 1
        yield Finding(rule="not-text", code=FindingCode.NUL_BYTE, line=line, severity="error")


def shebang(context: ScriptContext) -> Iterator[Finding]:
    """Find a script without an interpreter in its first line."""
    text = context.script.text
    if not text.strip():
        yield Finding(rule="empty-script", code=FindingCode.EMPTY_SCRIPT, severity="error")
    elif not text.startswith("#!"):
        at = next((n for n, line in enumerate(text.split("\n"), 1) if line.lstrip().startswith("#!")), None)
        yield Finding(
            rule="missing-shebang",
            code=FindingCode.MISSING_SHEBANG,
            values={"stands_in_line": at},
            line=1,
            severity="error",
            fix=FixCode.BEGIN_WITH_SHEBANG,
        )


def ignored_options(context: ScriptContext) -> Iterator[Finding]:
    """Find options after the first command, which sbatch ignores."""
    lines = context.script.text.split("\n")
    for line in context.script.directives.ignored:
        yield Finding(
            rule="ignored-option",
            code=FindingCode.IGNORED_OPTION,
            values={
                "text": lines[line - 1].strip(),
                "first_command": context.script.directives.first_command,
            },
            line=line,
            fix=FixCode.MOVE_ABOVE_COMMANDS,
        )


def lookalikes(context: ScriptContext) -> Iterator[Finding]:
    """Find comments that look like options. ``##SBATCH`` usually is deliberate: only a note."""
    lines = context.script.text.split("\n")
    for line in context.script.directives.lookalikes:
        is_deliberate = lines[line - 1].startswith("##")
        yield Finding(
            rule="not-read",
            code=FindingCode.COMMENTED_OPTION,
            values={"text": lines[line - 1].strip()},
            line=line,
            severity="note" if is_deliberate else "warning",
        )


def placeholders(context: ScriptContext) -> Iterator[Finding]:
    """Find placeholders of a template that were not filled in."""
    for given in context.script.options.entries:
        match = _PLACEHOLDER.search(given.value or "") if given.option in _NAMING else None
        if match:
            yield Finding(
                rule="placeholder",
                code=FindingCode.PLACEHOLDER_IN_OPTION,
                values={"spelled": given.spelled, "value": given.value},
                line=given.line,
                fix=FixCode.FILL_IN,
            )
    for number, line in enumerate(context.script.text.split("\n"), 1):
        if not line.lstrip().startswith("#") and (match := _IN_BODY.search(line[:2000])):
            yield Finding(
                rule="placeholder",
                code=FindingCode.PLACEHOLDER,
                values={"text": match[0]},
                line=number,
                fix=FixCode.FILL_IN,
            )


def other_schedulers(context: ScriptContext) -> Iterator[Finding]:
    """Find lines for PBS or LSF, some of which sbatch silently reads."""
    for number, line in enumerate(context.script.text.split("\n"), 1):
        if re.match(r"#(?:PBS|BSUB)\s", line) and "ignore-pbs" not in context.script.options:
            yield Finding(
                rule="other-scheduler",
                code=FindingCode.OTHER_SCHEDULER,
                values={"scheduler": line[1:].split()[0]},
                line=number,
                severity="note",
                fix=FixCode.DELETE_LINE,
            )
            return


RULES = (line_ends, zero_bytes, shebang, ignored_options, lookalikes, placeholders, other_schedulers)
