"""Forecasts of run time and resources for a table of jobs, computed for all of them at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from forewarn.learn.heads.usage.quantities import QUANTITIES, memory_per_node, time_limit

_USE = ("memory", "cpu_efficiency", "io_rate")
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
        return self._whole_limits[row]

    def row(self, row: int) -> UsageForecast | None:
        """Return the usage forecast of one job."""
        return self.usage.row(row) if self.usage else None

    def excess(self, row: int) -> dict[Outcome, float]:
        """Return the probabilities of exceeding the requested time and memory, where there is a forecast."""
        over = {Outcome.TIMEOUT: self._over_limit[row], Outcome.OUT_OF_MEMORY: self._over_memory[row]}
        return {outcome: p for outcome, p in over.items() if p is not None}

    def run_time(self, row: int) -> RunTime | None:
        """Return the forecast run time of a job, and the probability of exceeding its limit."""
        if self.usage is None or (seconds := self._quantiles["run_time"][row]) is None:
            return None
        return RunTime(
            seconds=seconds,
            limit=self._whole_limits[row],
            over_limit=self._over_limit[row],
            rests_on=self.usage.rests_on["run_time"],
        )

    def resources(self, row: int) -> Resources | None:
        """Return the forecast use of a job, and a memory request that suffices with probability `ENOUGH`."""
        memory, cpu, io = (self._quantiles[name][row] for name in _USE)
        if memory is None and cpu is None and io is None:
            return None
        return Resources(
            memory=memory,
            memory_request=self._memory_request[row],
            memory_asked=self._whole_memory_asked[row],
            over_memory=self._over_memory[row],
            cpu_efficiency=cpu,
            io_rate=io,
            rests_on=self._use_rests_on,
        )

    def expected_run_time(self, row: int) -> float | None:
        """Return the mean run time of a job, capped at its limit; without a forecast, the limit."""
        if (expected := self._expected[row]) is not None:
            return expected
        limit = self.limit(row)
        return None if limit is None else float(limit)

    # Each of these has one value per job, of Python's own types, which many jobs read far faster than arrays.

    @cached_property
    def _whole_limits(self) -> list[int | None]:
        return _whole(self.limits)

    @cached_property
    def _whole_memory_asked(self) -> list[int | None]:
        return _whole(self.memory_asked)

    @cached_property
    def _over_limit(self) -> Sequence[float | None]:
        return self._known(self.usage.over_limit(self.limits) if self.usage else None)

    @cached_property
    def _over_memory(self) -> Sequence[float | None]:
        return self._known(self.usage.over_memory(self.memory_asked) if self.usage else None)

    def _known(self, probabilities: Floats | None) -> Sequence[float | None]:
        if probabilities is None:
            return self._nothing
        return [None if isnan(p) else p for p in probabilities.tolist()]

    @cached_property
    def _quantiles(self) -> Mapping[str, Sequence[Quantiles | None]]:
        """The quantiles of each quantity; of memory per node."""
        quantiles: dict[str, Sequence[Quantiles | None]] = dict.fromkeys(QUANTITIES, self._nothing)
        for name in QUANTITIES if self.usage else ():
            distributions: Distributions | None = getattr(self.usage, name)
            if self.usage and distributions is not None:
                levels = distributions.quantiles(LEVELS)
                rows = levels * self.usage.units_per_node[:, None] if name == "memory" else levels
                quantiles[name] = [
                    Quantiles(low=low, median=median, high=high) for low, median, high in rows.tolist()
                ]
        return quantiles

    @cached_property
    def _use_rests_on(self) -> int:
        return max(self.usage.rests_on.get(name, 0) for name in _USE) if self.usage else 0

    @cached_property
    def _memory_request(self) -> Sequence[float | None]:
        request = self.usage.memory_quantile(ENOUGH) if self.usage else None
        return self._nothing if request is None else request.tolist()

    @cached_property
    def _expected(self) -> Sequence[float | None]:
        run_time = self.usage.run_time if self.usage else None
        if run_time is None:
            return self._nothing
        limits = np.where(np.isnan(self.limits) | (self.limits == 0), np.inf, self.limits)
        expected: list[float | None] = (
            np.minimum(run_time.quantiles(DECILE_MIDPOINTS), limits[:, None]).mean(axis=1).tolist()
        )
        return expected

    @property
    def _nothing(self) -> list[None]:
        return [None] * len(self.table.values)


def _whole(numbers: Floats) -> list[int | None]:
    """Return whole numbers, None where one is missing."""
    return [None if isnan(number) else int(number) for number in numbers.tolist()]
