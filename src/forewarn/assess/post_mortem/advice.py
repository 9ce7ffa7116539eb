"""What to do about a cause, with the job's own numbers, and with what a model foresees that it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from math import ceil
from typing import Any

from forewarn.assess.advice.moves import megabytes
from forewarn.assess.advice.rounding import rounded_memory, rounded_time
from forewarn.assess.post_mortem.record_evidence import memory_of_a_node
from forewarn.assess.wording.amounts import memory
from forewarn.job.record import Job
from forewarn.job.units import UNLIMITED, format_duration

_TIMES = 2  # what it had, where nobody knows how much it needs
_RULE = "how much it needs is not known, and twice that is a rule of thumb"


@dataclass(frozen=True, slots=True)
class ResubmitForecast:
    """What a model foresees that a job needs, were it submitted again."""

    memory: float | None = None  # bytes on a node that are enough for 95 % of such jobs
    seconds: float | None = None  # that are enough for 90 %


Foresee = Callable[[], ResubmitForecast]  # asked only where it matters: it takes a second


def nobody_foresees() -> ResubmitForecast:
    """Without a model."""
    return ResubmitForecast()


def with_numbers(job: Job, family: str | None, foresee: Foresee = nobody_foresees) -> Iterator[str]:
    """Lines to add to the script, where the record tells enough for one."""
    had = memory_of_a_node(job)
    if family == "out_of_memory" and had:
        needed = foresee().memory
        if needed is not None and needed > had:
            why = f"by earlier jobs, {memory(needed)} are enough for 95% of jobs like it"
        else:
            needed, why = _TIMES * had, _RULE
        yield f"It had {memory(had)} on a node; {why}: `#SBATCH {_memory_option(job, had, needed)}`."
    if family == "time_limit" and job.time_limit and job.time_limit < UNLIMITED:
        seconds = foresee().seconds
        if seconds is not None and seconds > job.time_limit:
            limit = rounded_time(seconds)
            why = f"by earlier jobs, {format_duration(limit)} are enough for 90% of jobs like it"
        else:
            limit, why = _TIMES * job.time_limit, _RULE
        line = f"#SBATCH --time={format_duration(limit)}"
        yield f"Its limit was {format_duration(job.time_limit)}; {why}: `{line}`."
    if family in ("node_failure", "gpu_hardware", "network") and job.nodes:
        yield f"If it happens there again: `#SBATCH --exclude={job.nodes}`."


def _memory_option(job: Job, had: float, needed: float) -> str:
    """The option that gives as much on a node, counted as the job counted it."""
    if job.memory_per in ("cpu", "gpu") and job.memory_asked:
        each = ceil(rounded_memory(needed) * job.memory_asked / had)
        return f"--mem-per-{job.memory_per}={megabytes(each)}"
    return f"--mem={megabytes(rounded_memory(needed))}"


_NAMES = [field.name for field in fields(Job)]
_OF_A_RUN = ("raw_id", "nodes", *_NAMES[_NAMES.index("nodes_given") :])  # what a record gets later


def as_requested_now(job: Job, at: int) -> Job:
    """An ended job as a request of now, with nothing of what it was given and how it ended."""
    cleared: dict[str, Any] = dict.fromkeys(_OF_A_RUN)
    return replace(job, **cleared, job_id="", submit=at)
