"""Savings: smaller requests for jobs that request far more than they need.

Savings are separate from advice on risk. A smaller request always covers a safe quantile of the forecast and
the longest similar run, with a margin, and is never offered where it would raise the risk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import ceil

from forewarn.assess.advice.moves import (
    WORTH,
    addressable_risk,
    megabytes,
    usual,
    written_memory,
    written_time,
)
from forewarn.assess.advice.rounding import rounded_memory, rounded_time
from forewarn.assess.advice.situation import Situation, counted
from forewarn.assess.assessment import Change, Saving
from forewarn.assess.codes import CauseCode, StepCode
from forewarn.assess.oddness.partitions import PartitionNodes
from forewarn.assess.risk_parts import cause_probability
from forewarn.evidence import Statement
from forewarn.job.outcomes import Outcome
from forewarn.job.record import Job
from forewarn.job.units import format_duration

# The quantile level that a smaller request must cover, and the factor on top of it and of the longest run.
SAFE, MARGIN = 0.99, 1.25
FAR = 2.0  # least ratio of the request to the smaller one
LEAST_TIME = 1800  # least seconds to save
RISES = 0.01  # largest acceptable rise of the risk that depends on the request
AS_NEW = 0.05  # largest acceptable rise of the whole risk: a new request has less history
# Returns the median waits in seconds of requests with the first and the second limit; None: too few jobs.
Waits = Callable[[float, float], tuple[float, float] | None]


def savings(s: Situation, *, longest: float | None = None, waits: Waits | None = None) -> tuple[Saving, ...]:
    """Find requests that could be smaller.

    Parameters
    ----------
    longest
        Run time in seconds of the user's longest similar job.
    waits
        Returns how long requests have waited, by their time limit.
    """
    accepted = []
    for saving in (*_time(s, longest, waits), *_memory(s)):
        (after,) = s.after([saving.changes])
        if after is None:
            continue
        rises = addressable_risk(after) - addressable_risk(s.failure) > RISES
        if not rises and after.probability - s.failure.probability <= AS_NEW:
            accepted.append(replace(saving, risk_after=after.probability))
    return tuple(accepted)


def _time(s: Situation, longest: float | None, waits: Waits | None) -> Iterator[Saving]:
    requested, safe = s.limit, s.needs.limit_for(SAFE)
    if requested is None or safe is None or cause_probability(s.failure, Outcome.TIMEOUT) >= WORTH:
        return
    new = rounded_time(max(safe, longest or 0.0) * MARGIN)
    if requested < FAR * new or requested - new < LEAST_TIME:
        return
    waited = waits(requested, new) if waits else None
    yield Saving(
        steps=(Statement(StepCode.LESS_TIME, {"asked": requested, "new": new}),),
        because=(usual(s.needs.limit_for, CauseCode.RUN_TIME_OF_SUCH_JOBS),),
        changes=(Change(option="time", before=written_time(s.job), after=format_duration(new)),),
        resource="time",
        asked=float(requested),
        enough=float(new),
        chance=1.0 - (s.needs.over_limit(new) or 0.0),
        risk_before=s.failure.probability,
        risk_after=s.failure.probability,
        node_hours=(requested - new) * (s.job.nodes_asked or 1) / 3600,
        wait_before=waited[0] if waited else None,
        wait_after=waited[1] if waited else None,
    )


def _memory(s: Situation) -> Iterator[Saving]:
    requested, safe = s.memory, s.needs.memory_for(SAFE)
    if requested is None or safe is None or s.job.memory_per == "gpu":
        return
    if cause_probability(s.failure, Outcome.OUT_OF_MEMORY) >= WORTH:
        return
    new = rounded_memory(max(safe * MARGIN, s.memory_floor or 0, _fair_share(s.job, s.place)))
    if requested < FAR * new:
        return
    option = "mem-per-cpu" if s.job.memory_per == "cpu" else "mem"
    after = megabytes(ceil(new / counted(s.job)))
    yield Saving(
        steps=(Statement(StepCode.LESS_MEMORY, {"asked": requested, "new": new}),),
        because=(usual(s.needs.memory_for, CauseCode.MEMORY_OF_SUCH_JOBS),),
        changes=(Change(option=option, before=written_memory(s.job), after=after),),
        resource="memory",
        asked=float(requested),
        enough=float(new),
        chance=1.0 - (s.needs.over_memory(new) or 0.0),
        risk_before=s.failure.probability,
        risk_after=s.failure.probability,
    )


def _fair_share(job: Job, place: PartitionNodes) -> float:
    """Return the node memory in proportion to the job's CPUs: leaving that unused blocks no other job."""
    per_cpu = [node.memory / node.cpus for node in place.nodes if node.memory and node.cpus]
    return min(per_cpu, default=0.0) * max(1.0, (job.cpus_asked or 1) / (job.nodes_asked or 1))
