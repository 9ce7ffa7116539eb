"""The lines of a log that match a known pattern: causes before what follows from them.

Texts that a pattern needs are searched for first, in all of the log at once; the expression then looks at
those few lines only. So a log of millions of harmless lines costs little, whatever the number of patterns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from forewarn.assess.post_mortem.log_reading import Log, Part, clean, shortened
from forewarn.assess.post_mortem.patterns import PATTERNS, Pattern
from forewarn.assess.post_mortem.report import LogLine

PLACES = 100  # of a hint that are looked at, from each end of a part
WIDEST = 20_000  # bytes of a line that are looked at, on each side of a hint
MOST = 8  # lines that are told
ALIKE = 2  # of one pattern: a file that is missing may be named a hundred times
_WORTH = {pattern.name: pattern.worth for pattern in PATTERNS}


@dataclass(frozen=True, slots=True)
class _Match:
    part: Part
    begin: int  # where its line begins
    line: str
    pattern: Pattern
    said: str

    @property
    def rank(self) -> tuple[bool, float]:
        return not self.pattern.follow_up, self.pattern.worth


def matches(log: Log, most: int = MOST) -> tuple[LogLine, ...]:
    """The lines that tell most: causes first, in order of worth and then of place, then what follows them."""
    found: list[_Match] = []
    for part in log.parts:
        seen: dict[int, str] = {}
        lines: dict[int, _Match] = {}
        for pattern in PATTERNS:
            for begin, line in _candidates(part, pattern, seen):
                before = lines.get(begin)
                if before is not None and before.rank >= (not pattern.follow_up, pattern.worth):
                    continue
                said = pattern.meaning(line)
                if said is not None:
                    lines[begin] = _Match(part, begin, line, pattern, said)
        found += [lines[begin] for begin in sorted(lines)]
    return tuple(_told(log, match) for match in _chosen(found)[:most])


def worth(line: LogLine) -> float:
    """How much a line is worth as a cause; what only follows is worth little."""
    return 0.1 if line.follow_up else _WORTH[line.pattern]


def _candidates(part: Part, pattern: Pattern, seen: dict[int, str]) -> Iterator[tuple[int, str]]:
    """Where lines begin that have a hint of the pattern, and what stands there; `seen` keeps that."""
    of_pattern: set[int] = set()
    for hint in pattern.hints:
        for place in _places(part.text, hint.encode()):
            begin = part.text.rfind(b"\n", max(0, place - WIDEST), place) + 1
            if not begin and place > WIDEST:
                begin = place - WIDEST  # a line without end
            if begin in of_pattern:
                continue
            of_pattern.add(begin)
            if begin not in seen:
                end = part.text.find(b"\n", place, place + WIDEST)
                seen[begin] = clean(part.text[begin : end if end >= 0 else place + WIDEST])
            yield begin, seen[begin]


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


def _chosen(found: list[_Match]) -> list[_Match]:
    """The first of each kind of line, causes before follow-ups, those worth most first, then by place."""
    firsts: dict[tuple[str, str], _Match] = {}
    for match in found:
        firsts.setdefault((match.pattern.name, match.said), match)
    kinds: Counter[str] = Counter()
    kept = []
    for match in sorted(firsts.values(), key=lambda one: (one.pattern.follow_up, -one.pattern.worth)):
        kinds[match.pattern.name] += 1
        if kinds[match.pattern.name] <= ALIKE:
            kept.append(match)
    return kept


def _told(log: Log, match: _Match) -> LogLine:
    found = match.pattern.compiled.search(match.line)
    return LogLine(
        path=str(log.path),
        line=match.part.line_number(match.begin),
        text=shortened(match.line, found.start() if found else 0),
        pattern=match.pattern.name,
        family=match.pattern.family,
        what=match.said,
        follow_up=match.pattern.follow_up,
    )
