"""What can go wrong with a lab, told in one line that says what to do.

LabError               the lab could not do what was asked; exit code 1
└── LabMissingError    this machine cannot have a lab: no root, no packages, …; exit code 3
"""

from __future__ import annotations


class LabError(Exception):
    """The lab could not do what was asked; the message says why and what to do."""

    exit_code = 1


class LabMissingError(LabError):
    """A lab cannot be had on this machine: tests that need one are skipped with this reason."""

    exit_code = 3
