"""The forecast run time and memory of one job, as probabilities and quantiles for advice."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from forewarn.learn.heads.usage.distributions import Floats, UsageForecast


@dataclass(frozen=True, slots=True)
class ForecastNeeds:
    """One row of a usage forecast; without a forecast every answer is None."""

    forecast: UsageForecast | None
    row: int = 0

    def over_limit(self, seconds: float) -> float | None:
        """Return the probability that the job runs longer than this."""
        return self._at(self.forecast.over_limit(seconds)) if self.forecast else None

    def limit_for(self, probability: float) -> float | None:
        """Return the run time in seconds that suffices with this probability."""
        run_time = self.forecast.run_time if self.forecast else None
        return self._at(run_time.quantile(probability)) if run_time else None

    def over_memory(self, amount: float) -> float | None:
        """Return the probability that the job needs more than so many bytes on a node."""
        return self._at(self.forecast.over_memory(amount)) if self.forecast else None

    def memory_for(self, probability: float) -> float | None:
        """Return the bytes per node that suffice with this probability."""
        return self._at(self.forecast.memory_quantile(probability)) if self.forecast else None

    def _at(self, values: Floats | None) -> float | None:
        if values is None or np.isnan(values[self.row]):
            return None
        return float(values[self.row])
