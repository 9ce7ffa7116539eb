"""What is foreseen of some jobs: for each number a distribution, to read quantiles and chances from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from forewarn.learn.heads.usage.quantities import Quantity
from forewarn.learn.heads.usage.recalibration import Recalibration

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Distributions:
    """One quantity of many jobs, as chances to stay at or below the borders of its bins."""

    quantity: Quantity
    borders: Floats
    below: Floats  # jobs × borders, as the trees say
    levels: Recalibration  # what holds of that

    def quantile(self, level: float) -> Floats:
        """Find what each job stays at or below with this chance. Never beyond what was ever seen."""
        return self.quantiles((level,))[:, 0]

    def quantiles(self, levels: Sequence[float]) -> Floats:
        """Find what each job stays at or below with each of some chances: job × level."""
        said = self.levels.to_say(np.array(levels))
        after = np.stack([(self.below < one).sum(axis=1) for one in said], axis=1)
        after = after.clip(1, len(self.borders) - 1)
        rows = np.arange(len(self.below))[:, None]
        low, high = self.below[rows, after - 1], self.below[rows, after]
        part = np.minimum(np.maximum((said - low) / np.maximum(high - low, 1e-12), 0.0), 1.0)
        place = self.borders[after - 1] + part * (self.borders[after] - self.borders[after - 1])
        return self.quantity.unscaled(place)

    def over(self, value: Floats | float) -> Floats:
        """The chance of each job to go beyond a value, one for all or one for each; NaN for NaN."""
        place = np.broadcast_to(self.quantity.scaled(np.asarray(value, np.float64)), len(self.below))
        after = np.clip(np.searchsorted(self.borders, place, side="left"), 1, len(self.borders) - 1)
        rows = np.arange(len(self.below))
        width = self.borders[after] - self.borders[after - 1]
        part = np.minimum(np.maximum((place - self.borders[after - 1]) / width, 0.0), 1.0)
        low, high = self.below[rows, after - 1], self.below[rows, after]
        return np.where(np.isnan(place), np.nan, 1.0 - self.levels(low + part * (high - low)))

    def halving_beyond(self, limit: Floats) -> Distributions:
        """The same, but of what is left at a job's limit half at most is left with every doubling after it.

        Where limits are kept nobody has seen a job like it go on beyond, and trees that know nothing would
        let it run as long as the longest job ever. Only for logarithmic scales.
        """
        plain = replace(self, levels=Recalibration.plain())
        place = self.quantity.scaled(limit)[:, None]
        left = plain.over(limit)[:, None] * np.exp2(np.minimum(place - self.borders, 0.0))
        stays = np.where(self.borders > place, np.minimum(1.0 - self.below, left), 1.0 - self.below)
        return replace(self, below=1.0 - stays)

    def said(self, value: Floats) -> Floats:
        """The chance that holds of staying at or below: of what came true, even if the levels hold."""
        return 1.0 - self.over(value)


@dataclass(frozen=True, slots=True)
class UsageForecast:
    """All that is foreseen of some jobs. What their cluster's history does not tell is None.

    Memory is counted a node: the largest task's use, times the tasks that share a node.
    """

    run_time: Distributions | None
    memory: Distributions | None  # of a task, or of what else `units_per_node` counts
    cpu_efficiency: Distributions | None
    io_rate: Distributions | None
    units_per_node: Floats
    rests_on: dict[str, int]  # jobs that each was learnt from

    def row(self, place: int) -> UsageForecast:
        """What is foreseen of one of the jobs: asking about it then costs no more than one."""
        one = slice(place, place + 1)

        def of(told: Distributions | None) -> Distributions | None:
            return told and replace(told, below=told.below[one])

        return UsageForecast(
            run_time=of(self.run_time),
            memory=of(self.memory),
            cpu_efficiency=of(self.cpu_efficiency),
            io_rate=of(self.io_rate),
            units_per_node=self.units_per_node[one],
            rests_on=self.rests_on,
        )

    def over_limit(self, seconds: Floats | float) -> Floats | None:
        """The chance to need longer than a limit, whatever limit was asked."""
        return None if self.run_time is None else self.run_time.over(seconds)

    def over_memory(self, bytes_a_node: Floats | float) -> Floats | None:
        """The chance to need more memory on a node than this, whatever was asked."""
        if self.memory is None:
            return None
        return self.memory.over(np.asarray(bytes_a_node, np.float64) / self.units_per_node)

    def memory_quantile(self, level: float) -> Floats | None:
        """Bytes a node that are enough with this chance."""
        return None if self.memory is None else self.memory.quantile(level) * self.units_per_node
