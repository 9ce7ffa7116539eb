"""The protocol by which advice asks for a job's forecast needs."""

from __future__ import annotations

from typing import Protocol


class JobNeeds(Protocol):
    """Forecast run time and memory of one job, as probabilities and quantiles.

    Every answer about a quantity that the history holds no measurement of is None.
    """

    def over_limit(self, seconds: float) -> float | None:
        """Return the probability that the job runs longer than this."""

    def limit_for(self, probability: float) -> float | None:
        """Return the run time in seconds that suffices with this probability."""

    def over_memory(self, amount: float) -> float | None:
        """Return the probability that the job needs more than so many bytes on a node."""

    def memory_for(self, probability: float) -> float | None:
        """Return the bytes per node that suffice with this probability."""
