"""Read a job's log from both ends, within bounds: some have many gigabytes, and any bytes."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HEAD, TAIL = 1 << 20, 3 << 20  # bytes read of the beginning and of the end: a third of a second of work
_SHOWN = 300  # characters of a line that is quoted
WIDEST, _OVERLAP = 1000, 300  # characters of a line that are matched in one piece
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufffe\uffff]")


@dataclass(frozen=True, slots=True)
class LogPart:
    """A part of a log that consists of whole lines."""

    text: bytes
    from_end: bool = False  # lines are counted back from the end of the log, whose beginning is not here

    def lines(self) -> Iterator[tuple[int, str]]:
        """Yield the lines without colours, with their numbers: from 1, or from the end, where the last is -1.

        Text that a progress bar overwrote is a line too, and so is each piece of a very long line.

        >>> list(LogPart(b"a\\n 5%\\r\\x1b[31mError\\x1b[0m\\n").lines())
        [(1, 'a'), (2, ' 5%'), (2, 'Error')]
        >>> list(LogPart(b"a\\nb\\n", from_end=True).lines())
        [(-2, 'a'), (-1, 'b')]
        """
        text = self.text.decode("utf-8", "replace")
        if "\x1b" in text:
            text = _ESCAPES.sub("", text)
        rows = text.removesuffix("\n").split("\n")
        for number, row in enumerate(rows, -len(rows) if self.from_end else 1):
            for piece in row.split("\r") if "\r" in row else (row,):
                if len(piece) <= WIDEST:
                    yield number, piece
                    continue
                for begin in range(0, len(piece), WIDEST):
                    yield number, piece[begin : begin + WIDEST + _OVERLAP]


@dataclass(frozen=True, slots=True)
class Log:
    """The parts of a log that were read."""

    path: Path
    size: int
    parts: tuple[LogPart, ...]

    @property
    def whole(self) -> bool:
        """Whether the log was read completely."""
        return len(self.parts) < 2


def read_log(path: Path, *, head: int = HEAD, tail: int = TAIL) -> Log:
    """Read a log, or both ends of a large one. Raises OSError where it cannot be read.

    Only a plain file is read: a pipe or device could block.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode):
            raise OSError(f"{path}: not a plain file")
        size = about.st_size
        if size <= head + tail:
            return Log(path, size, (LogPart(file.read(head + tail)),))
        first = file.read(head)
        file.seek(size - tail)
        last = file.read(tail)
    # Lines that the bounds cut are left out, unless a part is one line.
    first = first[: first.rfind(b"\n") + 1] or first
    last = last[last.find(b"\n") + 1 :] or last
    return Log(path, size, (LogPart(first), LogPart(last, from_end=True)))


def shortened(text: str, around: int = 0) -> str:
    """Prepare a line for display: without control characters, cut to what is near a place in it.

    >>> len(shortened("x" * 1000)), shortened("short")
    (301, 'short')
    """
    text = _CONTROLS.sub("", text.expandtabs(4)).rstrip()
    if len(text) <= _SHOWN:
        return text
    begin = max(0, min(around - _SHOWN // 3, len(text) - _SHOWN))
    cut = text[begin : begin + _SHOWN]
    return ("…" if begin else "") + cut + ("…" if begin + _SHOWN < len(text) else "")


def log_of_text(path: str, text: str, tail: str | None = None, size: int | None = None) -> Log:
    """Return a log that was read on another machine: all of it, or its beginning and its end.

    >>> log_of_text("a.out", "begin\\n", "end\\n", 9_000_000).whole
    False
    """
    parts = [LogPart(text.encode("utf-8", "replace"))]
    if tail is not None:
        parts.append(LogPart(tail.encode("utf-8", "replace"), from_end=True))
    return Log(Path(path), size or sum(len(part.text) for part in parts), tuple(parts))
