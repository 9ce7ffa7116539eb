"""The findings of `forewarn doctor` and their severities."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum


class Severity(IntEnum):
    """The severity of a finding; its number is the exit code that monitoring plugins use."""

    FINE = 0
    WARNING = 1
    PROBLEM = 2
    UNKNOWN = 3  # could not be checked


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """The result of one check: its name, its severity, and what was found and what to do about it."""

    check: str
    level: Severity
    message: str


def overall_severity(findings: Iterable[DoctorFinding]) -> Severity:
    """Return the severity of all findings together: a problem outranks unknown, unknown a warning.

    >>> severities = [Severity.FINE, Severity.UNKNOWN, Severity.WARNING]
    >>> overall_severity(DoctorFinding("x", level, "") for level in severities).name
    'UNKNOWN'
    """
    levels = {finding.level for finding in findings}
    order = (Severity.PROBLEM, Severity.UNKNOWN, Severity.WARNING)
    return next((level for level in order if level in levels), Severity.FINE)
