"""What a check found."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum


class Level(IntEnum):
    """How bad it is; its number is the exit code, as monitoring plugins have it."""

    FINE = 0
    WARNING = 1
    PROBLEM = 2
    UNKNOWN = 3  # could not be looked at


@dataclass(frozen=True, slots=True)
class Finding:
    """One check: what was looked at, how it is, and what to do where something is."""

    check: str
    level: Level
    said: str


def verdict(findings: Iterable[Finding]) -> Level:
    """Of all together: a problem counts most, then that something could not be looked at, then a warning.

    >>> levels = [Level.FINE, Level.UNKNOWN, Level.WARNING]
    >>> verdict(Finding("x", level, "") for level in levels).name
    'UNKNOWN'
    """
    found = {finding.level for finding in findings}
    order = (Level.PROBLEM, Level.UNKNOWN, Level.WARNING)
    return next((level for level in order if level in found), Level.FINE)
