"""Change options in a script: only the lines that set them are rewritten."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import unified_diff

from forewarn.assess.assessment import Change
from forewarn.job.sbatch.directives import MAGIC
from forewarn.job.sbatch.getopt import GivenOption
from forewarn.job.sbatch.option_table import OPTIONS
from forewarn.job.sbatch.script import Script, read_script

# sbatch rejects one of these beside another.
_EXCLUDE = ({"mem", "mem-per-cpu", "mem-per-gpu"},)
_NEEDS_QUOTES = set(" \t#\"'\\")


def script_diff(script_text: str, changes: Sequence[Change], *, name: str = "job.sbatch") -> tuple[str, str]:
    r"""Return the changed text, and its difference as `diff -u` shows it.

    An option keeps its spelling (short, long, joined to its value) and the comment after it; a new option
    gets a line of its own after the last #SBATCH.

    >>> longer = Change(option="time", before="30", after="01:00:00")
    >>> more = Change(option="mem", before=None, after="4G")
    >>> new, diff = script_diff("#!/bin/sh\n#SBATCH -t30 # half an hour\ntrue\n", [longer, more])
    >>> print(new)
    #!/bin/sh
    #SBATCH -t01:00:00 # half an hour
    #SBATCH --mem=4G
    true
    <BLANKLINE>
    """
    text = script_text
    for change in changes:
        for others in _EXCLUDE:
            for other in sorted(others - {change.option}) if change.option in others else ():
                text = _without(text, other)
        text = _with(text, change)
    lines = unified_diff(
        script_text.splitlines(keepends=True), text.splitlines(keepends=True), f"a/{name}", f"b/{name}"
    )
    return text, "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )


def _with(text: str, change: Change) -> str:
    given = _given(read_script(text), change.option)
    value = _quoted(change.after)
    if given and given[-1].span is not None and given[-1].value_line is not None:
        lines = text.split("\n")
        begin, end = given[-1].span
        line = lines[given[-1].value_line - 1]
        lines[given[-1].value_line - 1] = line[:begin] + value + line[end:]
        new = "\n".join(lines)
        # A line that cannot be rewritten stays as it is: the option added later overrides it.
        if read_script(new).options.value(change.option) == change.after:
            return new
    return _added(text, change, value)


def _added(text: str, change: Change, value: str) -> str:
    script = read_script(text)
    lines = text.split("\n")
    last = max((d.line for d in script.directives.read if d.component == 0), default=0)
    at = last or (1 if text.startswith("#!") else 0)
    end = "\r" if lines[max(at - 1, 0)].endswith("\r") else ""
    option = f"--{change.option}={value}" if change.after else f"--{change.option}"
    lines.insert(at, f"{MAGIC} {option}{end}")
    return "\n".join(lines)


def _without(text: str, option: str) -> str:
    """Return the script without an option; a line with no other option is removed."""
    while given := _given(read_script(text), option):
        one = given[-1]
        lines = text.split("\n")
        assert one.line is not None
        row = lines[one.line - 1]
        new = _cut(row, one)
        if new is None or one.value_line != one.line:
            # Joined to other options, or on two lines: rare enough to comment out the whole line.
            lines[one.line - 1] = f"#{row}"
        elif new.strip() == MAGIC or new.partition("#SBATCH")[2].strip().startswith("#"):
            del lines[one.line - 1]
        else:
            lines[one.line - 1] = new
        text = "\n".join(lines)
    return text


def _cut(row: str, one: GivenOption) -> str | None:
    begin = row.find(one.spelled)
    if begin < 0 or one.span is None or one.span[0] < begin:
        return None
    return (
        row[:begin].rstrip() + " " + row[one.span[1] :].lstrip()
        if row[one.span[1] :].strip()
        else row[:begin].rstrip()
    )


def _given(script: Script, option: str) -> list[GivenOption]:
    option = OPTIONS[option].means if option in OPTIONS else option
    return [g for g in script.options.entries if g.option == option and g.origin == "script"]


def _quoted(value: str) -> str:
    if not _NEEDS_QUOTES & set(value):
        return value
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
