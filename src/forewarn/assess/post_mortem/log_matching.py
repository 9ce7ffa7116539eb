"""Find the lines of a log that match a known pattern: causes before what follows from them.

The hints of all patterns are searched for first, in one pass over the log; the expressions then look at those
few lines only. So a log of many harmless lines costs little, whatever the number of patterns.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from forewarn.assess.post_mortem.log_reading import Log, LogPart, shortened
from forewarn.assess.post_mortem.patterns import PATTERNS, Pattern
from forewarn.assess.post_mortem.report import LogLine

# Lines with a hint that are matched, from each end of a part: a log can have a million of them.
PLACES = 150
MOST = 8  # lines that are returned
BUDGET = 2.0  # seconds for the expressions of one log: a normal one takes a hundredth of it
ALIKE = 2  # lines of one pattern: a missing file may be named a hundred times
_WORTH = {pattern.name: pattern.worth for pattern in PATTERNS}


def _by_hint() -> dict[str, list[Pattern]]:
    found: dict[str, list[Pattern]] = {}
    for pattern in PATTERNS:
        for hint in pattern.hints:
            found.setdefault(hint, []).append(pattern)
    return found


_BY_HINT: Mapping[str, list[Pattern]] = _by_hint()
_ORDER = {pattern.name: place for place, pattern in enumerate(PATTERNS)}


@dataclass(frozen=True, slots=True)
class _Match:
    number: int
    line: str
    pattern: Pattern
    meaning: str

    @property
    def rank(self) -> tuple[bool, float, int]:
        return not self.pattern.follow_up, self.pattern.worth, -_ORDER[self.pattern.name]


@dataclass(frozen=True, slots=True)
class LogMatches:
    """The lines of a log that match a pattern."""

    lines: tuple[LogLine, ...]
    in_time: bool  # False: the budget was used up before all lines had been matched


def matches(log: Log, most: int = MOST) -> LogMatches:
    """Find the most informative lines: causes first, by worth and then by place, then what follows them."""
    until = time.monotonic() + BUDGET
    found = [match for part in log.parts for match in _of_part(part, until)]
    in_time = time.monotonic() <= until
    return LogMatches(tuple(_log_line(log, match) for match in _chosen(found)[:most]), in_time)


def worth(line: LogLine) -> float:
    """Return the weight of a line as evidence for a cause; one that only follows from it weighs little."""
    return 0.1 if line.follow_up else _WORTH[line.pattern]


def _of_part(part: LogPart, until: float) -> list[_Match]:
    """Match the lines of a part, each by its strongest pattern, until the time is used up."""
    lines = list(part.lines())
    best: dict[int, _Match] = {}
    for place, patterns in _hinted([text for _, text in lines]).items():
        if time.monotonic() > until:
            break
        number, text = lines[place]
        meanings = [(pattern, pattern.meaning(text)) for pattern in dict.fromkeys(patterns)]
        found = [_Match(number, text, pattern, words) for pattern, words in meanings if words is not None]
        if found:
            best[place] = max(found, key=lambda match: match.rank)
    return [best[place] for place in sorted(best)]


def _hinted(lines: list[str]) -> dict[int, list[Pattern]]:
    """Return the patterns that a line may match, by its place; of each hint the first and last lines."""
    hints = pl.Series("line", lines, dtype=pl.String).str.extract_many(list(_BY_HINT), overlapping=True)
    rows = (
        pl.DataFrame({"hint": hints})
        .with_row_index("place")
        .filter(pl.col("hint").list.len() > 0)
        .explode("hint")
        .unique(maintain_order=True)
    )
    from_begin, from_end = (
        pl.int_range(pl.len()).over("hint"),
        pl.int_range(pl.len()).reverse().over("hint"),
    )
    found: dict[int, list[Pattern]] = {}
    for place, hint in rows.filter((from_begin < PLACES) | (from_end < PLACES)).iter_rows():
        found.setdefault(place, []).extend(_BY_HINT[hint])
    return found


def _chosen(found: list[_Match]) -> list[_Match]:
    """Choose the first line of each meaning: causes before follow-ups, the strongest first, then by place."""
    firsts: dict[tuple[str, str], _Match] = {}
    for match in found:
        firsts.setdefault((match.pattern.name, match.meaning), match)
    chosen_of: Counter[str] = Counter()
    chosen = []
    for match in sorted(firsts.values(), key=lambda one: (one.pattern.follow_up, -one.pattern.worth)):
        chosen_of[match.pattern.name] += 1
        if chosen_of[match.pattern.name] <= ALIKE:
            chosen.append(match)
    return chosen


def _log_line(log: Log, match: _Match) -> LogLine:
    found = match.pattern.compiled.search(match.line)
    return LogLine(
        path=str(log.path),
        line=match.number,
        text=shortened(match.line, found.start() if found else 0),
        pattern=match.pattern.name,
        family=match.pattern.family,
        what=match.meaning,
        follow_up=match.pattern.follow_up,
    )
