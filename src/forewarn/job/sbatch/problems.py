"""What is wrong with options: found while reading them, told as findings later."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """Something for which sbatch refuses the script, unless it is minor."""

    rule: str  # short name: unknown-option
    what: str
    line: int | None = None  # of the script; None: environment or command line
    fix: str | None = None
    refused: bool = True
