"""Patterns of log lines that show failures, by subject."""

from __future__ import annotations

from forewarn.assess.post_mortem.patterns import environment, files, limits, parallel, programs, scheduler
from forewarn.assess.post_mortem.patterns.base import Pattern

# Of two patterns that match a line the one with the larger weight counts, then the first in this order.
PATTERNS: tuple[Pattern, ...] = (
    *limits.PATTERNS,
    *environment.PATTERNS,
    *files.PATTERNS,
    *parallel.PATTERNS,
    *programs.PATTERNS,
    *scheduler.PATTERNS,
)

__all__ = ["PATTERNS", "Pattern"]
