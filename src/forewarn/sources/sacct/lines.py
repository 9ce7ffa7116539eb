"""The lines of sacct's text: their columns, where jobs begin, and rows that are broken.

sacct does not quote. A ``|`` in a job's name shifts the columns after it, a line end in a submit line breaks
the row in two. Such rows are repaired where the formats of the fields leave only one way to read them, and
are bad rows otherwise; a row is never read with its columns shifted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import dropwhile

import numpy as np
from numpy.typing import NDArray

from forewarn.sources.sacct.fields import FIELDS, JOB_ID, PHRASE, FieldFormat

# Placeholders for a separator and a line end inside a repaired value, until the columns are split: Unicode
# noncharacters, which no text contains.
SEPARATOR, LINE_END = "\ufdd0", "\ufdd1"
_STAND_INS = re.compile(f"{SEPARATOR}|{LINE_END}".encode())
_JOB = re.compile(JOB_ID.encode())
_NOT_A_ROW = re.compile(rb"(?:sacct|slurm\w*|srun): ")  # messages that 2>&1 mixed into the rows
_MOST_LINES = 200  # of one row: a submit line may hold a script, but not more
_MOST_SEPARATORS = 200  # too many in one row, for the same reason


@dataclass(frozen=True)
class ColumnLayout:
    """The columns of one file."""

    names: tuple[str, ...]
    ends_with_separator: bool = False  # --parsable; --parsable2 does not

    @cached_property
    def separators(self) -> int:
        """The number of separators in a row."""
        return len(self.names) - 1 + self.ends_with_separator

    @cached_property
    def forms(self) -> tuple[FieldFormat, ...]:
        """The form of each column; fields of a Slurm newer than the table may be any phrase."""
        return tuple(FIELDS[name].form if name in FIELDS else PHRASE for name in self.names)

    @cached_property
    def id_at(self) -> int:
        """The column that distinguishes jobs from their steps."""
        return self.names.index("JobID" if "JobID" in self.names else "JobIDRaw")

    def id_of(self, line: bytes) -> bytes:
        """Return the text in the column of the job's id."""
        parts = line.rstrip(b"\n").split(b"|", self.id_at + 1)
        return parts[self.id_at].strip() if len(parts) > self.id_at else b""

    def is_whole(self, line: bytes) -> bool:
        """Check whether a line has all columns of a row and no more."""
        if self.ends_with_separator and not line.rstrip(b"\n").endswith(b"|"):
            return False
        return line.count(b"|") == self.separators

    def begins_job(self, line: bytes) -> bool:
        """Check for a whole row of a job, not of a step."""
        return self.is_whole(line) and _JOB.fullmatch(self.id_of(line)) is not None

    def begins_row(self, line: bytes) -> bool:
        """Check for the first or only line of a row, whole or not."""
        number, _, _ = self.id_of(line).partition(b".")
        return _JOB.fullmatch(number) is not None

    def last_job(self, text: bytes) -> int:
        """Find where the last job begins: all rows and steps before it are complete."""
        end = len(text)
        while end:
            begin = text.rfind(b"\n", 0, end - 1) + 1
            if self.begins_job(text[begin:end]):
                return begin
            end = begin
        return 0


@dataclass
class SacctRows:
    """Rows of a text, each on one line with all its columns."""

    text: bytes
    lines: NDArray[np.int64]  # the line of the file that each row began at
    repaired: int = 0  # rows that had a separator or a line end inside a value
    bad: list[tuple[int, str, bytes]] = field(default_factory=list)  # line, reason, text


def read_rows(text: bytes, first_line: int, layout: ColumnLayout) -> SacctRows:
    """Read the rows of a text of whole lines, the first of which is the file's `first_line`-th."""
    if not text.endswith(b"\n"):
        text += b"\n"
    data = np.frombuffer(text, np.uint8)
    ends = np.flatnonzero(data == ord("\n"))
    begins = np.concatenate(([0], ends[:-1] + 1))
    counts = np.add.reduceat((data == ord("|")).view(np.uint8), begins, dtype=np.uint32)
    is_odd = counts != layout.separators
    if layout.ends_with_separator:
        is_odd |= data[np.maximum(ends - 1, 0)] != ord("|")
    odd = np.flatnonzero(is_odd)
    numbers = np.arange(first_line, first_line + len(ends), dtype=np.int64)
    if odd.size == 0:
        return SacctRows(text, numbers)
    pieces: list[bytes] = []
    places: list[NDArray[np.int64]] = []
    found = SacctRows(b"", numbers)
    whole_from = 0
    for run in np.split(odd, np.flatnonzero(np.diff(odd) > 1) + 1):
        # The row before a run may continue in it: both are read again together.
        first = max(int(run[0]) - 1, whole_from)
        after = int(run[-1]) + 1
        pieces.append(text[begins[whole_from] : begins[first]] if first > whole_from else b"")
        places.append(numbers[whole_from:first])
        lines = [(int(numbers[n]), text[begins[n] : ends[n]]) for n in range(first, after)]
        for at, row in _repaired(lines, layout, found.bad):
            pieces.append(row + b"\n")
            found.repaired += _STAND_INS.search(row) is not None
            places.append(np.array([at], np.int64))
        whole_from = after
    if whole_from < len(ends):
        pieces.append(text[begins[whole_from] :])
        places.append(numbers[whole_from:])
    found.text, found.lines = b"".join(pieces), np.concatenate(places)
    return found


Line = tuple[int, bytes]


def _repaired(lines: list[Line], layout: ColumnLayout, bad: list[tuple[int, str, bytes]]) -> Iterator[Line]:
    """Yield the rows of a stretch of lines, each as one line with the right number of separators."""
    for group in _grouped(lines, layout):
        group = _from_first_text(group[::-1])[::-1]
        while group := _from_first_text(group):
            for size in range(1, min(len(group), _MOST_LINES) + 1):
                row = _fitted(_joined(group[:size]), layout)
                if row is not None:
                    rest = group[size:]
                    if rest and _goes_on(rest, layout):
                        row, rest = row + LINE_END.encode() + _marked(_joined(rest)), []
                    yield group[0][0], row
                    group = rest
                    break
            else:
                bad.extend((at, _what_is_wrong(text, layout), text) for at, text in group if text.strip())
                group = []


def _from_first_text(lines: list[Line]) -> list[Line]:
    return list(dropwhile(lambda line: not line[1].strip(), lines))


def _joined(lines: list[Line]) -> bytes:
    return b"\n".join(text for _, text in lines)


def _marked(text: bytes) -> bytes:
    return text.replace(b"|", SEPARATOR.encode()).replace(b"\n", LINE_END.encode())


def _goes_on(rest: list[Line], layout: ColumnLayout) -> bool:
    """Check whether lines after a complete row, none of which begins one, belong to its last column."""
    if layout.ends_with_separator or not layout.forms[-1].lines or len(rest) > _MOST_LINES:
        return False
    # With a comment before the id they could also begin the next row.
    return not any(form.lines for form in layout.forms[: layout.id_at])


def _grouped(lines: list[Line], layout: ColumnLayout) -> Iterator[list[Line]]:
    """Group lines that may be one row: a new group begins where the id column holds a job's id."""
    group: list[Line] = []
    for at, text in lines:
        message = _NOT_A_ROW.match(text) is not None
        if message or layout.begins_row(text):
            yield group
            group = []
        group.append((at, text))
        if message:
            yield group
            group = []
    yield group


def _fitted(text: bytes, layout: ColumnLayout) -> bytes | None:
    """Mark separators and line ends inside values, if there is exactly one way to read the row."""
    if b"\n" not in text and layout.is_whole(text):
        return text
    if layout.ends_with_separator and not text.endswith(b"|"):
        return None
    parts = text.decode().removesuffix("|" if layout.ends_with_separator else "").split("|")
    ways = _ways(parts, layout.forms) if 0 <= len(parts) - len(layout.forms) <= _MOST_SEPARATORS else []
    if len(ways) != 1:
        return None
    row = b"|".join(_marked(part.encode()) for part in ways[0])
    return row + b"|" * layout.ends_with_separator


def _ways(parts: list[str], forms: tuple[FieldFormat, ...]) -> list[list[str]]:
    """List ways to assign the parts to columns, where free text may take several; two ways are enough."""
    extra = len(parts) - len(forms)

    @cache
    def ways(column: int, spent: int) -> list[list[str]]:
        """List values of the columns up to this one, which take up `spent` surplus parts."""
        if column < 0:
            return [] if spent else [[]]
        found: list[list[str]] = []
        for more in range(spent + 1 if forms[column].free else 1):
            end = column + spent + 1
            value = "|".join(parts[end - more - 1 : end])
            if forms[column].fits(value):
                found += [[*before, value] for before in ways(column - 1, spent - more)]
                if len(found) > 1:
                    break
        return found[:2]

    return ways(len(forms) - 1, extra)


def _what_is_wrong(text: bytes, layout: ColumnLayout) -> str:
    if _NOT_A_ROW.match(text):
        return "a message, not a row"
    if layout.ends_with_separator and not text.endswith(b"|"):
        return "does not end with | as the other rows do"
    expected, got = len(layout.names), text.count(b"|") + 1 - layout.ends_with_separator
    if got < expected:
        return f"{got} columns instead of {expected}"
    return (
        f"{got} columns instead of {expected}: a | or a line end inside a value, and no single way to read it"
    )
