"""What is said of a job's run time and resources, made from what was foreseen of it."""

from __future__ import annotations

import math

from forewarn.assess.assessment import Quantiles, Resources, RunTime
from forewarn.learn.table import Table
from forewarn.learn.usage import Foreseen
from forewarn.learn.usage.foreseen import Distributions
from forewarn.learn.usage.judging import ENOUGH
from forewarn.learn.usage.quantities import memory_a_node, time_limit

LEVELS = (0.1, 0.5, 0.9)


def limit_of(part: Table, row: int) -> int | None:
    """Seconds that a job asked for, None for no limit at all or one that is not known."""
    limit = float(time_limit(part)[row])
    return None if math.isnan(limit) else int(limit)


def memory_of(part: Table, row: int) -> int | None:
    """Bytes a node that a job asked for. None where it asked for none, or for all of a node."""
    asked = float(memory_a_node(part)[row])
    return None if math.isnan(asked) else int(asked)


def run_time(foreseen: Foreseen, row: int, limit: int | None) -> RunTime | None:
    """How long one of the jobs will run, and the chance that it needs longer than a limit."""
    seconds = _quantiles(foreseen.run_time, row)
    if seconds is None:
        return None
    over = None if limit is None else foreseen.over_limit(limit)
    return RunTime(
        seconds=seconds,
        limit=limit,
        over_limit=None if over is None else float(over[row]),
        rests_on=foreseen.rests_on["run_time"],
    )


def resources(
    foreseen: Foreseen, row: int, memory_asked: int | None, *, enough: float = ENOUGH
) -> Resources | None:
    """What one of the jobs will use; the request of memory is enough with this chance."""
    parts = ("memory", "cpu_efficiency", "io_rate")
    if all(getattr(foreseen, name) is None for name in parts):
        return None
    units = float(foreseen.units_per_node[row])
    request = foreseen.memory_quantile(enough)
    over = None if memory_asked is None else foreseen.over_memory(memory_asked)
    return Resources(
        memory=_quantiles(foreseen.memory, row, units),
        memory_request=None if request is None else float(request[row]),
        memory_asked=memory_asked,
        over_memory=None if over is None else float(over[row]),
        cpu_efficiency=_quantiles(foreseen.cpu_efficiency, row),
        io_rate=_quantiles(foreseen.io_rate, row),
        rests_on=max(foreseen.rests_on.get(name, 0) for name in parts),
    )


def _quantiles(told: Distributions | None, row: int, times: float = 1.0) -> Quantiles | None:
    if told is None:
        return None
    low, median, high = (float(told.quantile(level)[row]) * times for level in LEVELS)
    return Quantiles(low=low, median=median, high=high)
