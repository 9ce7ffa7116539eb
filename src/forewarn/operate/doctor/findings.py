"""What a check found."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum


class Severity(IntEnum):
    """How bad it is; its number is the exit code, as monitoring plugins have it."""

    FINE = 0
    WARNING = 1
    PROBLEM = 2
    UNKNOWN = 3  # could not be looked at


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """One check: what was looked at, how it is, and what to do where something is."""

    check: str
    level: Severity
    said: str


def verdict(findings: Iterable[DoctorFinding]) -> Severity:
    """Of all together: a problem counts most, then that something could not be looked at, then a warning.

    >>> levels = [Severity.FINE, Severity.UNKNOWN, Severity.WARNING]
    >>> verdict(DoctorFinding("x", level, "") for level in levels).name
    'UNKNOWN'
    """
    found = {finding.level for finding in findings}
    order = (Severity.PROBLEM, Severity.UNKNOWN, Severity.WARNING)
    return next((level for level in order if level in found), Severity.FINE)
