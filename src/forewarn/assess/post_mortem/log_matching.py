"""The lines of a log that match a known pattern: causes before what follows from them.

Texts that a pattern needs are searched for first, all of them in one pass over the log; the expressions then
look at those few lines only. So a log of many harmless lines costs little, whatever the number of patterns.
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

PLACES = (
    150  # lines with a hint that are looked at, from each end of a part: a log can have a million of them
)
MOST = 8  # lines that are told
BUDGET = 2.0  # seconds for the expressions of one log: an honest one takes a hundredth of it
ALIKE = 2  # of one pattern: a file that is missing may be named a hundred times
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
    said: str

    @property
    def rank(self) -> tuple[bool, float, int]:
        return not self.pattern.follow_up, self.pattern.worth, -_ORDER[self.pattern.name]


@dataclass(frozen=True, slots=True)
class LogMatches:
    """The lines of a log that match."""

    lines: tuple[LogLine, ...]
    in_time: bool  # False: the budget was used up before all lines had been matched


def matches(log: Log, most: int = MOST) -> LogMatches:
    """The lines that tell most: causes first, in order of worth and then of place, then what follows them."""
    until = time.monotonic() + BUDGET
    found = [match for part in log.parts for match in _of_part(part, until)]
    in_time = time.monotonic() <= until
    return LogMatches(tuple(_told(log, match) for match in _chosen(found)[:most]), in_time)


def worth(line: LogLine) -> float:
    """How much a line is worth as a cause; what only follows is worth little."""
    return 0.1 if line.follow_up else _WORTH[line.pattern]


def _of_part(part: LogPart, until: float) -> list[_Match]:
    """Of each line what says most of it, in order; lines that the time did not suffice for are left out."""
    lines = list(part.lines())
    best: dict[int, _Match] = {}
    for place, patterns in _hinted([text for _, text in lines]).items():
        if time.monotonic() > until:
            break
        number, text = lines[place]
        said = [(pattern, pattern.meaning(text)) for pattern in dict.fromkeys(patterns)]
        known = [_Match(number, text, pattern, words) for pattern, words in said if words is not None]
        if known:
            best[place] = max(known, key=lambda match: match.rank)
    return [best[place] for place in sorted(best)]


def _hinted(lines: list[str]) -> dict[int, list[Pattern]]:
    """The patterns that a line may be of, by the line's place; of a hint the first lines and the last."""
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
        line=match.number,
        text=shortened(match.line, found.start() if found else 0),
        pattern=match.pattern.name,
        family=match.pattern.family,
        what=match.said,
        follow_up=match.pattern.follow_up,
    )
