"""Lines that tell of failures, in families: one table for all of them."""

from __future__ import annotations

from forewarn.assess.post_mortem.patterns import environment, files, limits, parallel, programs, scheduler
from forewarn.assess.post_mortem.patterns.base import Pattern

# Where two of them match one line, the one that is worth more counts, then the one that stands first here.
PATTERNS: tuple[Pattern, ...] = (
    *limits.PATTERNS,
    *environment.PATTERNS,
    *files.PATTERNS,
    *parallel.PATTERNS,
    *programs.PATTERNS,
    *scheduler.PATTERNS,
)

__all__ = ["PATTERNS", "Pattern"]
