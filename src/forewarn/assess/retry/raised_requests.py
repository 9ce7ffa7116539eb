"""How much more memory or time a retry requests."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from forewarn.assess.advice.moves import megabytes
from forewarn.assess.advice.rounding import rounded_memory, rounded_time
from forewarn.assess.post_mortem.record_evidence import memory_of_a_node
from forewarn.assess.retry.verdict import RaiseBasis
from forewarn.job.record import Job
from forewarn.job.units import UNLIMITED

_MIB = 1 << 20
DOUBLE = 2.0  # times what it had, where nothing else is known
STEP, LEAP = 1.25, 3.0  # the smallest and the largest factor of a new request


@dataclass(frozen=True, slots=True)
class RaisedRequest:
    """A larger amount of memory on a node, or of time, and the one that did not suffice."""

    had: float
    new: int
    basis: RaiseBasis


def raised_memory(
    job: Job, forecast: float | None, factor: float | None, most: int | None
) -> RaisedRequest | None:
    """Return the bytes per node to request after a kill for memory; None where the old amount is not known.

    `new` is not above `had` where no node has more. `forecast` are bytes per node, `factor` is that of
    earlier resubmissions, `most` what the nodes have.
    """
    had = memory_of_a_node(job)
    if not had:
        return None
    new, basis = _raised(max(had, measured_memory(job) or 0.0), forecast, factor)
    return _within(had, rounded_memory(new), basis, most)


def measured_memory(job: Job) -> float | None:
    """Return the bytes on a node that the job was seen to use, its tasks there all counted as the largest."""
    if job.max_memory is None:
        return None
    nodes = job.nodes_given or job.nodes_asked or 1
    return job.max_memory * max(1.0, (job.tasks_asked or 1) / nodes)


def counted_memory(job: Job, raised: RaisedRequest) -> tuple[int, str]:
    """Return the new memory request as the job counted it: bytes, and per what.

    >>> job = Job(cluster="c", job_id="1", submit=0, memory_asked=2 << 30, memory_per="cpu", cpus_asked=4)
    >>> counted_memory(job, RaisedRequest(8 << 30, 16 << 30, RaiseBasis.DOUBLING))
    (4294967296, 'cpu')
    """
    if job.memory_per in ("cpu", "gpu") and job.memory_asked:
        each, per = raised.new * job.memory_asked / raised.had, job.memory_per
    else:
        each, per = float(raised.new), "node"
    # Up to whole megabytes, but not above the largest amount that can be had.
    whole = int(each / _MIB) if raised.basis is RaiseBasis.LARGEST else ceil(each / _MIB)
    return whole * _MIB, per


def memory_option(memory: int, per: str) -> str:
    """Write a memory request as sbatch's option.

    >>> memory_option(12 << 30, "node"), memory_option(3 << 30, "cpu")
    ('--mem=12G', '--mem-per-cpu=3G')
    """
    return f"--mem={megabytes(memory)}" if per == "node" else f"--mem-per-{per}={megabytes(memory)}"


def raised_time(
    job: Job, forecast: float | None, factor: float | None, most: int | None
) -> RaisedRequest | None:
    """Return the time limit to request after a time-out; None where it had no limit, or an unknown one."""
    had = job.time_limit
    if not had or had >= UNLIMITED:
        return None
    new, basis = _raised(had, forecast, factor)
    return _within(had, rounded_time(new), basis, most)


def _raised(had: float, forecast: float | None, factor: float | None) -> tuple[float, RaiseBasis]:
    """Return the larger of what the evidence proposes, between `STEP` and `LEAP` times what it had."""
    proposals = [(DOUBLE if factor is None else factor) * had]
    bases = [RaiseBasis.DOUBLING if factor is None else RaiseBasis.RESUBMISSIONS]
    if forecast is not None and forecast > had:
        proposals.append(forecast)
        bases.append(RaiseBasis.FORECAST)
    new = max(proposals)
    if new > LEAP * had:
        return LEAP * had, RaiseBasis.BOUNDED
    return max(new, STEP * had), bases[proposals.index(new)]


def _within(had: float, new: int, basis: RaiseBasis, most: int | None) -> RaisedRequest:
    if most is not None and new > most:
        return RaisedRequest(had, most, RaiseBasis.LARGEST)
    return RaisedRequest(had, new, basis)
