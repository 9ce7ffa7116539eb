"""What is forecast of some jobs' run time and resources, one row each: computed for all of them at once."""

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
from forewarn.learn.heads.usage.quantities import memory_a_node, time_limit

LEVELS = (0.1, 0.5, 0.9)
SPREAD = tuple((place + 0.5) / 10 for place in range(10))  # a run time's distribution as ten equal parts
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Forecast:
    """The jobs of a table, and what is foreseen of them; None: nothing."""

    table: JobTable
    foreseen: UsageForecast | None

    @cached_property
    def limits(self) -> Floats:
        """Seconds that each job asked for; NaN for no limit at all or one that is not known."""
        return time_limit(self.table)

    @cached_property
    def memory_asked(self) -> Floats:
        """Bytes a node that each job asked for; NaN where it asked for none, or for all of a node."""
        return memory_a_node(self.table)

    def limit(self, row: int) -> int | None:
        """Seconds that a job asked for."""
        return None if isnan(self.limits[row]) else int(self.limits[row])

    def row(self, row: int) -> UsageForecast | None:
        """What is foreseen of one of the jobs."""
        return self.foreseen.row(row) if self.foreseen else None

    @cached_property
    def _over(self) -> tuple[Floats | None, Floats | None]:
        """The chance of each job to exceed its time limit, and its memory."""
        if self.foreseen is None:
            return None, None
        return self.foreseen.over_limit(self.limits), self.foreseen.over_memory(self.memory_asked)

    def excess(self, row: int) -> dict[Outcome, float]:
        """How likely a job needs more than it requests, where a forecast tells."""
        by = dict(zip((Outcome.TIMEOUT, Outcome.OUT_OF_MEMORY), self._over, strict=True))
        return {
            outcome: float(over[row])
            for outcome, over in by.items()
            if over is not None and not isnan(over[row])
        }

    def run_time(self, row: int) -> RunTime | None:
        """How long a job will run, and the chance that it needs longer than its limit."""
        if self.foreseen is None or self._run_time is None:
            return None
        return RunTime(
            seconds=_quantiles(self._run_time[row]),
            limit=self.limit(row),
            over_limit=self.excess(row).get(Outcome.TIMEOUT),
            rests_on=self.foreseen.rests_on["run_time"],
        )

    def resources(self, row: int) -> Resources | None:
        """What a job will use; the request of memory is enough with the usual chance."""
        if self.foreseen is None or all(part is None for part in self._use):
            return None
        memory, cpu, io = (None if part is None else _quantiles(part[row]) for part in self._use)
        request, asked = self._memory_request, self.memory_asked[row]
        return Resources(
            memory=memory,
            memory_request=None if request is None else float(request[row]),
            memory_asked=None if isnan(asked) else int(asked),
            over_memory=self.excess(row).get(Outcome.OUT_OF_MEMORY),
            cpu_efficiency=cpu,
            io_rate=io,
            rests_on=max(
                self.foreseen.rests_on.get(name, 0) for name in ("memory", "cpu_efficiency", "io_rate")
            ),
        )

    def expected_run_time(self, row: int) -> float | None:
        """The mean run time of a job within its limit; where none is foreseen, the limit."""
        if self._expected is not None:
            return float(self._expected[row])
        limit = self.limit(row)
        return None if limit is None else float(limit)

    @cached_property
    def _run_time(self) -> Floats | None:
        return _levels(self.foreseen.run_time, LEVELS) if self.foreseen else None

    @cached_property
    def _use(self) -> tuple[Floats | None, Floats | None, Floats | None]:
        """Memory a node, CPU efficiency and I/O rate, rows × levels."""
        if self.foreseen is None:
            return None, None, None
        memory = _levels(self.foreseen.memory, LEVELS)
        return (
            None if memory is None else memory * self.foreseen.units_per_node[:, None],
            _levels(self.foreseen.cpu_efficiency, LEVELS),
            _levels(self.foreseen.io_rate, LEVELS),
        )

    @cached_property
    def _memory_request(self) -> Floats | None:
        return self.foreseen.memory_quantile(ENOUGH) if self.foreseen else None

    @cached_property
    def _expected(self) -> Floats | None:
        drawn = _levels(self.foreseen.run_time, SPREAD) if self.foreseen else None
        if drawn is None:
            return None
        most = np.where(np.isnan(self.limits) | (self.limits == 0), np.inf, self.limits)
        return np.asarray(np.minimum(drawn, most[:, None]).mean(axis=1))


def _levels(of: Distributions | None, levels: tuple[float, ...]) -> Floats | None:
    return None if of is None else of.quantiles(levels)


def _quantiles(row: Floats) -> Quantiles:
    low, median, high = row.tolist()
    return Quantiles(low=low, median=median, high=high)
