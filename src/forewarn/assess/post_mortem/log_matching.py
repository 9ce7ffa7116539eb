"""The lines of a log that match a known pattern: causes before what follows from them.

Texts that a pattern needs are searched for first, in all of the log at once; the expression then looks at
those few lines only. So a log of millions of harmless lines costs little, whatever the number of patterns.
"""

from __future__ import annotations

from collections.abc import Iterator

from forewarn.assess.post_mortem.log_reading import Log, Part, clean, shortened
from forewarn.assess.post_mortem.patterns import PATTERNS, Pattern
from forewarn.assess.post_mortem.report import LogLine

PLACES = 300  # of a hint that are looked at, from each end of a part
WIDEST = 20_000  # bytes of a line that are looked at, on each side of a hint
MOST = 8  # lines that are told
_WORTH = {pattern.name: pattern.worth for pattern in PATTERNS}


def matches(log: Log, most: int = MOST) -> tuple[LogLine, ...]:
    """The lines that tell most: causes first, in order of worth and then of place, then what follows them."""
    found: list[LogLine] = []
    for part in log.parts:
        lines: dict[int, LogLine] = {}
        for pattern in PATTERNS:
            for begin, line in _candidates(part, pattern):
                before = lines.get(begin)
                if before is not None and _rank(before) >= (not pattern.follow_up, pattern.worth):
                    continue
                said = pattern.meaning(line)
                if said is not None:
                    lines[begin] = _told(log, part, begin, line, pattern, said)
        found += [lines[begin] for begin in sorted(lines)]
    return tuple(_chosen(found, most))


def worth(line: LogLine) -> float:
    """How much a line is worth as a cause; what only follows is worth little."""
    return 0.1 if line.follow_up else _WORTH[line.pattern]


def _rank(line: LogLine) -> tuple[bool, float]:
    return not line.follow_up, _WORTH[line.pattern]


def _candidates(part: Part, pattern: Pattern) -> Iterator[tuple[int, str]]:
    """Where lines begin that have a hint of the pattern, and what stands there."""
    seen: set[int] = set()
    for hint in pattern.hints:
        for place in _places(part.text, hint.encode()):
            begin = part.text.rfind(b"\n", max(0, place - WIDEST), place) + 1
            if not begin and place > WIDEST:
                begin = place - WIDEST  # a line without end
            if begin in seen:
                continue
            seen.add(begin)
            end = part.text.find(b"\n", place, place + WIDEST)
            yield begin, clean(part.text[begin : end if end >= 0 else place + WIDEST])


def _places(text: bytes, hint: bytes) -> Iterator[int]:
    """Where a hint stands: the first places and the last, since a log can hold it a million times."""
    place, count = text.find(hint), 0
    while place >= 0 and count < PLACES:
        yield place
        line_end = text.find(b"\n", place)
        place, count = (text.find(hint, line_end) if line_end >= 0 else -1), count + 1
    if place < 0:
        return
    stop, place, count = place, text.rfind(hint), 0
    while place >= stop and count < PLACES:
        yield place
        line_begin = text.rfind(b"\n", 0, place)
        place, count = (text.rfind(hint, 0, line_begin) if line_begin >= 0 else -1), count + 1


def _told(log: Log, part: Part, begin: int, line: str, pattern: Pattern, said: str) -> LogLine:
    found = pattern.compiled.search(line)
    return LogLine(
        path=str(log.path),
        line=part.line_number(begin),
        text=shortened(line, found.start() if found else 0),
        pattern=pattern.name,
        family=pattern.family,
        what=said,
        follow_up=pattern.follow_up,
    )


def _chosen(found: list[LogLine], most: int) -> list[LogLine]:
    """The first of each kind of line, causes before follow-ups, those worth most first."""
    firsts: dict[tuple[str, str], LogLine] = {}
    for line in found:
        firsts.setdefault((line.pattern, line.what), line)
    kinds: dict[str, int] = {}
    kept = []
    order = {id(line): place for place, line in enumerate(found)}
    for line in sorted(
        firsts.values(), key=lambda one: (one.follow_up, -_WORTH[one.pattern], order[id(one)])
    ):
        kinds[line.pattern] = kinds.get(line.pattern, 0) + 1
        if kinds[line.pattern] <= 2:  # a file that is missing may be named a hundred times
            kept.append(line)
    return kept[:most]
