"""What a model foresees of a job's use, as it stands in an assessment."""

from __future__ import annotations

import numpy as np

from forewarn.assess.assessment import Quantiles, Resources, RunTime
from forewarn.assess.oddness.machine import limit
from forewarn.assess.oddness.request import Request
from forewarn.job.record import Job
from forewarn.learn.usage.foreseen import Distributions, Floats, Foreseen

ENOUGH = 0.95  # the chance with which a request for memory is to be enough


def run_time(foreseen: Foreseen, row: int, job: Job) -> RunTime | None:
    """How long it will run, and whether its limit is enough."""
    seconds = _quantiles(foreseen.run_time, row)
    if seconds is None:
        return None
    asked = limit(job.time_limit)
    over = foreseen.over_limit(float(asked)) if asked else None
    return RunTime(
        seconds=seconds, limit=asked, over_limit=_at(over, row), rests_on=foreseen.rests_on["run_time"]
    )


def resources(foreseen: Foreseen, row: int, job: Job) -> Resources | None:
    """What it will use, and whether its memory is enough."""
    memory = _quantiles(foreseen.memory, row, float(foreseen.units_per_node[row]))
    efficiency = _quantiles(foreseen.cpu_efficiency, row)
    io_rate = _quantiles(foreseen.io_rate, row)
    if memory is None and efficiency is None and io_rate is None:
        return None
    asked = Request.of(job).memory_a_node
    over = foreseen.over_memory(float(asked)) if asked else None
    return Resources(
        memory=memory,
        memory_request=_at(foreseen.memory_quantile(ENOUGH), row),
        memory_asked=asked,
        over_memory=_at(over, row),
        cpu_efficiency=efficiency,
        io_rate=io_rate,
        rests_on=max(count for name, count in foreseen.rests_on.items() if name != "run_time"),
    )


def _quantiles(told: Distributions | None, row: int, times: float = 1.0) -> Quantiles | None:
    if told is None:
        return None
    low, median, high = (float(told.quantile(level)[row]) * times for level in (0.1, 0.5, 0.9))
    return None if np.isnan(median) else Quantiles(low=low, median=median, high=high)


def _at(values: Floats | None, row: int) -> float | None:
    return None if values is None or np.isnan(values[row]) else float(values[row])
