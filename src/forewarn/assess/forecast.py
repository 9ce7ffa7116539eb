"""Forecasts of run time and resources for a table of jobs, computed for all of them at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import isnan

import numpy as np
from numpy.typing import NDArray

from forewarn.assess.assessment import Quantiles, Resources, RunTime
from forewarn.job.outcomes import Outcome
from forewarn.learn.data.table import JobTable
from forewarn.learn.heads.usage import UsageForecast
from forewarn.learn.heads.usage.distributions import Distributions
from forewarn.learn.heads.usage.evaluation import ENOUGH
from forewarn.learn.heads.usage.quantities import memory_per_node, time_limit

LEVELS = (0.1, 0.5, 0.9)
DECILE_MIDPOINTS = tuple((i + 0.5) / 10 for i in range(10))  # levels whose quantiles average to the mean
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Forecast:
    """The usage forecast of the jobs of a table; None: there is no forecast."""

    table: JobTable
    usage: UsageForecast | None

    @cached_property
    def limits(self) -> Floats:
        """The time limit of each job in seconds; NaN where it has none or it is not known."""
        return time_limit(self.table)

    @cached_property
    def memory_asked(self) -> Floats:
        """The requested bytes per node of each job; NaN where it requests none, or a whole node's memory."""
        return memory_per_node(self.table)

    def limit(self, row: int) -> int | None:
        """Return the time limit of a job in seconds."""
        return None if isnan(self.limits[row]) else int(self.limits[row])

    def row(self, row: int) -> UsageForecast | None:
        """Return the usage forecast of one job."""
        return self.usage.row(row) if self.usage else None

    @cached_property
    def _over(self) -> tuple[Floats | None, Floats | None]:
        """The probabilities of exceeding the time limit, and the requested memory."""
        if self.usage is None:
            return None, None
        return self.usage.over_limit(self.limits), self.usage.over_memory(self.memory_asked)

    def excess(self, row: int) -> dict[Outcome, float]:
        """Return the probabilities of exceeding the requested time and memory, where there is a forecast."""
        by_outcome = dict(zip((Outcome.TIMEOUT, Outcome.OUT_OF_MEMORY), self._over, strict=True))
        return {
            outcome: float(over[row])
            for outcome, over in by_outcome.items()
            if over is not None and not isnan(over[row])
        }

    def run_time(self, row: int) -> RunTime | None:
        """Return the forecast run time of a job, and the probability of exceeding its limit."""
        if self.usage is None or self._run_time is None:
            return None
        return RunTime(
            seconds=_quantiles(self._run_time[row]),
            limit=self.limit(row),
            over_limit=self.excess(row).get(Outcome.TIMEOUT),
            rests_on=self.usage.rests_on["run_time"],
        )

    def resources(self, row: int) -> Resources | None:
        """Return the forecast use of a job, and a memory request that suffices with probability `ENOUGH`."""
        if self.usage is None or all(part is None for part in self._use):
            return None
        memory, cpu, io = (None if part is None else _quantiles(part[row]) for part in self._use)
        request, requested = self._memory_request, self.memory_asked[row]
        return Resources(
            memory=memory,
            memory_request=None if request is None else float(request[row]),
            memory_asked=None if isnan(requested) else int(requested),
            over_memory=self.excess(row).get(Outcome.OUT_OF_MEMORY),
            cpu_efficiency=cpu,
            io_rate=io,
            rests_on=max(
                self.usage.rests_on.get(name, 0) for name in ("memory", "cpu_efficiency", "io_rate")
            ),
        )

    def expected_run_time(self, row: int) -> float | None:
        """Return the mean run time of a job, capped at its limit; without a forecast, the limit."""
        if self._expected is not None:
            return float(self._expected[row])
        limit = self.limit(row)
        return None if limit is None else float(limit)

    @cached_property
    def _run_time(self) -> Floats | None:
        return _levels(self.usage.run_time, LEVELS) if self.usage else None

    @cached_property
    def _use(self) -> tuple[Floats | None, Floats | None, Floats | None]:
        """Memory per node, CPU efficiency and I/O rate, rows × levels."""
        if self.usage is None:
            return None, None, None
        memory = _levels(self.usage.memory, LEVELS)
        return (
            None if memory is None else memory * self.usage.units_per_node[:, None],
            _levels(self.usage.cpu_efficiency, LEVELS),
            _levels(self.usage.io_rate, LEVELS),
        )

    @cached_property
    def _memory_request(self) -> Floats | None:
        return self.usage.memory_quantile(ENOUGH) if self.usage else None

    @cached_property
    def _expected(self) -> Floats | None:
        deciles = _levels(self.usage.run_time, DECILE_MIDPOINTS) if self.usage else None
        if deciles is None:
            return None
        limits = np.where(np.isnan(self.limits) | (self.limits == 0), np.inf, self.limits)
        return np.asarray(np.minimum(deciles, limits[:, None]).mean(axis=1))


def _levels(distributions: Distributions | None, levels: tuple[float, ...]) -> Floats | None:
    return None if distributions is None else distributions.quantiles(levels)


def _quantiles(row: Floats) -> Quantiles:
    low, median, high = row.tolist()
    return Quantiles(low=low, median=median, high=high)
