"""Forecasts of some jobs: a distribution for each quantity, with its quantiles and probabilities."""

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
    """The distributions of one quantity for many jobs, as probabilities to stay at or below bin borders."""

    quantity: Quantity
    borders: Floats
    below: Floats  # jobs × borders, as predicted by the trees
    recalibration: Recalibration  # of those probabilities

    def quantile(self, level: float) -> Floats:
        """Compute a quantile for each job. It is never above the largest value in the history."""
        return self.quantiles((level,))[:, 0]

    def quantiles(self, levels: Sequence[float]) -> Floats:
        """Compute some quantiles for each job: job × level."""
        predicted = self.recalibration.inverse(np.array(levels))
        after = np.stack([(self.below < level).sum(axis=1) for level in predicted], axis=1)
        after = after.clip(1, len(self.borders) - 1)
        rows = np.arange(len(self.below))[:, None]
        low, high = self.below[rows, after - 1], self.below[rows, after]
        part = np.minimum(np.maximum((predicted - low) / np.maximum(high - low, 1e-12), 0.0), 1.0)
        place = self.borders[after - 1] + part * (self.borders[after] - self.borders[after - 1])
        return self.quantity.unscale(place)

    def over(self, value: Floats | float) -> Floats:
        """Compute each job's probability of exceeding a value, one for all or one for each; NaN for NaN."""
        place = np.broadcast_to(self.quantity.scale(np.asarray(value, np.float64)), len(self.below))
        after = np.clip(np.searchsorted(self.borders, place, side="left"), 1, len(self.borders) - 1)
        rows = np.arange(len(self.below))
        width = self.borders[after] - self.borders[after - 1]
        part = np.minimum(np.maximum((place - self.borders[after - 1]) / width, 0.0), 1.0)
        low, high = self.below[rows, after - 1], self.below[rows, after]
        return np.where(np.isnan(place), np.nan, 1.0 - self.recalibration(low + part * (high - low)))

    def halve_beyond(self, limit: Floats) -> Distributions:
        """Bound the tail beyond a job's limit: it halves at least with every doubling of the limit.

        Where limits are enforced, no similar job was observed beyond its limit, and trees without any
        evidence would let the job run as long as the longest job ever. Only for logarithmic scales.
        """
        plain = replace(self, recalibration=Recalibration.identity())
        place = self.quantity.scale(limit)[:, None]
        bound = plain.over(limit)[:, None] * np.exp2(np.minimum(place - self.borders, 0.0))
        survival = np.where(self.borders > place, np.minimum(1.0 - self.below, bound), 1.0 - self.below)
        return replace(self, below=1.0 - survival)

    def at_most(self, value: Floats) -> Floats:
        """Compute each job's probability of staying at or below a value.

        At the observed values these probabilities are uniform if the distributions are calibrated.
        """
        return 1.0 - self.over(value)


@dataclass(frozen=True, slots=True)
class UsageForecast:
    """The forecast usage of some jobs. A quantity on which the cluster's history has no data is None.

    Memory is per node: the memory of the largest task, times the tasks that share a node.
    """

    run_time: Distributions | None
    memory: Distributions | None  # of a task, or of the unit that `units_per_node` counts
    cpu_efficiency: Distributions | None
    io_rate: Distributions | None
    units_per_node: Floats
    rests_on: dict[str, int]  # number of jobs that each quantity was learnt from

    def row(self, place: int) -> UsageForecast:
        """Return the forecast of one of the jobs, so that reading it costs no more than one job."""
        one = slice(place, place + 1)

        def select(distributions: Distributions | None) -> Distributions | None:
            return distributions and replace(distributions, below=distributions.below[one])

        return UsageForecast(
            run_time=select(self.run_time),
            memory=select(self.memory),
            cpu_efficiency=select(self.cpu_efficiency),
            io_rate=select(self.io_rate),
            units_per_node=self.units_per_node[one],
            rests_on=self.rests_on,
        )

    def over_limit(self, seconds: Floats | float) -> Floats | None:
        """Compute the probability of running longer than a limit, whatever limit was requested."""
        return None if self.run_time is None else self.run_time.over(seconds)

    def over_memory(self, bytes_per_node: Floats | float) -> Floats | None:
        """Compute the probability of needing more memory on a node than this, whatever was requested."""
        if self.memory is None:
            return None
        return self.memory.over(np.asarray(bytes_per_node, np.float64) / self.units_per_node)

    def memory_quantile(self, level: float) -> Floats | None:
        """Compute a quantile of the memory per node, in bytes."""
        return None if self.memory is None else self.memory.quantile(level) * self.units_per_node
