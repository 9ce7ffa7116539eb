"""What a model foresees of one job's use, as chances: what advice asks for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from forewarn.learn.heads.usage.distributions import Floats, UsageForecast


@dataclass(frozen=True, slots=True)
class ForecastNeeds:
    """One row of what was foreseen; without, nothing is known."""

    foreseen: UsageForecast | None
    row: int = 0

    def over_limit(self, seconds: float) -> float | None:
        """The probability that it needs longer than this."""
        return self._at(self.foreseen.over_limit(seconds)) if self.foreseen else None

    def limit_for(self, chance: float) -> float | None:
        """Seconds that are enough with this chance."""
        known = self.foreseen.run_time if self.foreseen else None
        return self._at(known.quantile(chance)) if known else None

    def over_memory(self, amount: float) -> float | None:
        """The probability that it needs more than so many bytes on a node."""
        return self._at(self.foreseen.over_memory(amount)) if self.foreseen else None

    def memory_for(self, chance: float) -> float | None:
        """Bytes on a node that are enough with this chance."""
        return self._at(self.foreseen.memory_quantile(chance)) if self.foreseen else None

    def _at(self, values: Floats | None) -> float | None:
        if values is None or np.isnan(values[self.row]):
            return None
        return float(values[self.row])
