"""Change options in a script: only the lines that set them are rewritten."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import unified_diff

from forewarn.assess.assessment import Change
from forewarn.job.sbatch.directives import MAGIC, read_directives
from forewarn.job.sbatch.getopt import GivenOption
from forewarn.job.sbatch.option_table import OPTIONS
from forewarn.job.sbatch.script import read_script

# sbatch rejects one of these beside another.
_EXCLUDE = ({"mem", "mem-per-cpu", "mem-per-gpu"},)
_NEEDS_QUOTES = set(" \t#\"'\\")
_MOST_READINGS = 20  # of a script for one option; only a script written to be slow needs more


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
    edited = _EditedScript(script_text)
    for change in changes:
        for others in _EXCLUDE:
            for other in sorted(others - {change.option}) if change.option in others else ():
                edited.remove(other)
        edited.set(change)
    return edited.text, edited.diff(script_text, name)


class _EditedScript:
    """The lines of a script while options change, each with its number in the script as it was."""

    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        self._numbers: list[int | None] = list(range(len(self._lines)))  # None: a new line

    @property
    def text(self) -> str:
        return "\n".join(self._lines)

    def set(self, change: Change) -> None:
        """Give an option a value: where it stands, or else in a line of its own."""
        given, value = self._given(change.option), _quoted(change.after)
        if given and given[-1].span is not None and given[-1].value_line is not None:
            (begin, end), at = given[-1].span, given[-1].value_line - 1
            line = self._lines[at]
            self._lines[at] = line[:begin] + value + line[end:]
            if read_script(self.text).options.value(change.option) == change.after:
                return
            # A line that cannot be rewritten stays as it is: the option added later overrides it.
            self._lines[at] = line
        self._add(change, value)

    def _add(self, change: Change, value: str) -> None:
        read = read_directives(self.text).read
        last = max((directive.line for directive in read if directive.component == 0), default=0)
        at = last or (1 if self._lines[0].startswith("#!") else 0)
        end = "\r" if self._lines[max(at - 1, 0)].endswith("\r") else ""
        option = f"--{change.option}={value}" if change.after else f"--{change.option}"
        self._lines.insert(at, f"{MAGIC} {option}{end}")
        self._numbers.insert(at, None)

    def remove(self, option: str) -> None:
        """Remove an option wherever it stands; a line with no other option goes too."""
        for _ in range(_MOST_READINGS):  # without a line the next ones can mean something else
            last_of_lines = {one.line: one for one in self._given(option)}
            if not last_of_lines:
                return
            for one in reversed(last_of_lines.values()):  # from the end: the numbers before stay
                self._remove(one)

    def _remove(self, one: GivenOption) -> None:
        assert one.line is not None
        at = one.line - 1
        row = self._lines[at]
        new = _cut(row, one)
        if new is None or one.value_line != one.line:
            # Joined to other options, or on two lines: rare enough to comment out the whole line.
            self._lines[at] = f"#{row}"
        elif new.strip() == MAGIC or new.partition("#SBATCH")[2].strip().startswith("#"):
            del self._lines[at], self._numbers[at]
        else:
            self._lines[at] = new

    def _given(self, option: str) -> list[GivenOption]:
        option = OPTIONS[option].means if option in OPTIONS else option
        entries = read_script(self.text).options.entries
        return [one for one in entries if one.option == option and one.origin == "script"]

    def diff(self, before: str, name: str) -> str:
        """Return the difference as `diff -u` shows it.

        Each line is compared with its number, so that all differ: equal lines would be matched with each
        other, in a time that grows with their square.
        """
        old = [f"{number}\0{line}\n" for number, line in enumerate(before.split("\n"))]
        new = [f"{number}\0{line}\n" for number, line in zip(self._numbers, self._lines, strict=True)]
        files, shown = (f"a/{name}", f"b/{name}"), list[str]()
        for line in unified_diff(_without_last_end(old), _without_last_end(new), *files):
            sign, numbered = line[0], line.partition("\0")
            shown.append(sign + numbered[2] if numbered[1] else line)
            if not line.endswith("\n"):
                shown.append("\n\\ No newline at end of file\n")
        return "".join(shown)


def _without_last_end(lines: list[str]) -> list[str]:
    """Return lines whose last one has no end, as it is the text after the last line break."""
    last = lines[-1][:-1]
    return lines[:-1] if last.endswith("\0") else [*lines[:-1], last]


def _cut(row: str, one: GivenOption) -> str | None:
    begin = -1 if one.span is None else row.rfind(one.spelled, 0, one.span[0])
    if one.span is None or begin < 0:
        return None
    return (
        row[:begin].rstrip() + " " + row[one.span[1] :].lstrip()
        if row[one.span[1] :].strip()
        else row[:begin].rstrip()
    )


def _quoted(value: str) -> str:
    if not _NEEDS_QUOTES & set(value):
        return value
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
