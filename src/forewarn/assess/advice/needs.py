"""What advice needs to know of a job's needs: chances, not a number."""

from __future__ import annotations

from typing import Protocol


class JobNeeds(Protocol):
    """How long one job will run and how much memory it will take, as far as history tells.

    A part that history does not tell is None throughout.
    """

    def over_limit(self, seconds: float) -> float | None:
        """The probability that it needs longer than this."""

    def limit_for(self, chance: float) -> float | None:
        """Seconds that are enough with this chance."""

    def over_memory(self, amount: float) -> float | None:
        """The probability that it needs more than so many bytes on a node."""

    def memory_for(self, chance: float) -> float | None:
        """Bytes on a node that are enough with this chance."""
