"""Advice with the job's own numbers, and with what a model predicts that it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from math import ceil
from typing import Any

from forewarn.assess.advice.moves import megabytes
from forewarn.assess.advice.rounding import rounded_memory, rounded_time
from forewarn.assess.post_mortem import wording
from forewarn.assess.post_mortem.record_evidence import memory_of_a_node
from forewarn.job.record import Job
from forewarn.job.units import UNLIMITED, format_duration

_TIMES = 2  # what it had, where no model predicts how much it needs


@dataclass(frozen=True, slots=True)
class ResubmitForecast:
    """The resources that a model predicts for a job, if it is submitted again."""

    memory: float | None = None  # bytes per node that are sufficient for 95% of such jobs
    seconds: float | None = None  # that are sufficient for 90% of such jobs


MakeForecast = Callable[[], ResubmitForecast]  # called only where it matters: it takes a second


def no_forecast() -> ResubmitForecast:
    """Return an empty forecast, where there is no model."""
    return ResubmitForecast()


def with_numbers(job: Job, family: str | None, forecast: MakeForecast = no_forecast) -> Iterator[str]:
    """Yield options to add to the script, where the record is sufficient to compute one."""
    had = memory_of_a_node(job)
    if family == "out_of_memory" and had:
        needed = forecast().memory
        if needed is not None and needed <= had:
            needed = None
        option = _memory_option(job, had, _TIMES * had if needed is None else needed)
        yield wording.more_memory(had, needed, option)
    if family == "time_limit" and job.time_limit and job.time_limit < UNLIMITED:
        seconds = forecast().seconds
        limit = rounded_time(seconds) if seconds is not None and seconds > job.time_limit else None
        option = f"--time={format_duration(_TIMES * job.time_limit if limit is None else limit)}"
        yield wording.more_time(job.time_limit, limit, option)
    if family in ("node_failure", "gpu_hardware", "network") and job.nodes:
        yield wording.exclude_nodes(job.nodes)


def _memory_option(job: Job, had: float, needed: float) -> str:
    """Return the option that requests so much per node, counted as the job counted it."""
    if job.memory_per in ("cpu", "gpu") and job.memory_asked:
        each = ceil(rounded_memory(needed) * job.memory_asked / had)
        return f"--mem-per-{job.memory_per}={megabytes(each)}"
    return f"--mem={megabytes(rounded_memory(needed))}"


_NAMES = [field.name for field in fields(Job)]
_OF_A_RUN = ("raw_id", "nodes", *_NAMES[_NAMES.index("nodes_given") :])  # fields filled after the submit


def as_requested_now(job: Job, at: int) -> Job:
    """Return an ended job as a request at a new time, without its allocation and its outcome."""
    cleared: dict[str, Any] = dict.fromkeys(_OF_A_RUN)
    return replace(job, **cleared, job_id="", submit=at)
