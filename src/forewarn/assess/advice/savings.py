"""Requests far above what the job needs: what to ask for instead, and what that frees.

Apart from advice on risk: nobody is told to ask for less than a safe quantile of the forecast with a margin
on top, nor for less than the longest similar run took, and nothing that would raise the risk is offered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import ceil

from forewarn.assess.advice.moves import WORTH, addressed, megabytes, usual, written_memory, written_time
from forewarn.assess.advice.rounding import rounded_memory, rounded_time
from forewarn.assess.advice.situation import Situation, counted
from forewarn.assess.assessment import Change, Saving
from forewarn.assess.codes import CauseCode, StepCode
from forewarn.assess.oddness.partitions import PartitionNodes
from forewarn.assess.risk_parts import of_cause
from forewarn.evidence import Statement
from forewarn.job.outcomes import Outcome
from forewarn.job.record import Job
from forewarn.job.units import format_duration

# Of the forecast, what a smaller request must cover, and what is put on top of that and of the longest run.
SAFE, MARGIN = 0.99, 1.25
FAR = 2.0  # times the smaller request, from which on a request is worth a word
LEAST_TIME = 1800  # seconds
RISES = 0.01  # of risk, which no saving is worth
AS_NEW = 0.05  # … where less is known of the new request, and nothing says that it is too small
# Median waits, in seconds, of requests with the first limit and with the second one; None: too few to tell.
Waits = Callable[[float, float], tuple[float, float] | None]


def savings(s: Situation, *, longest: float | None = None, waits: Waits | None = None) -> tuple[Saving, ...]:
    """What could be asked for less.

    Parameters
    ----------
    longest
        Seconds that the longest similar job of the user ran.
    waits
        How long requests have waited, by their time limit.
    """
    found = []
    for made in (*_time(s, longest, waits), *_memory(s)):
        (after,) = s.after([made.changes])
        if after is None:
            continue
        rises = addressed(after) - addressed(s.failure) > RISES
        if not rises and after.probability - s.failure.probability <= AS_NEW:
            found.append(replace(made, risk_after=after.probability))
    return tuple(found)


def _time(s: Situation, longest: float | None, waits: Waits | None) -> Iterator[Saving]:
    asked, safe = s.limit, s.needs.limit_for(SAFE)
    if asked is None or safe is None or of_cause(s.failure, Outcome.TIMEOUT) >= WORTH:
        return
    new = rounded_time(max(safe, longest or 0.0) * MARGIN)
    if asked < FAR * new or asked - new < LEAST_TIME:
        return
    waited = waits(asked, new) if waits else None
    yield Saving(
        steps=(Statement(StepCode.LESS_TIME, {"asked": asked, "new": new}),),
        because=(usual(s.needs.limit_for, CauseCode.RUN_TIME_OF_SUCH_JOBS),),
        changes=(Change(option="time", before=written_time(s.job), after=format_duration(new)),),
        resource="time",
        asked=float(asked),
        enough=float(new),
        chance=1.0 - (s.needs.over_limit(new) or 0.0),
        risk_before=s.failure.probability,
        risk_after=s.failure.probability,
        node_hours=(asked - new) * (s.job.nodes_asked or 1) / 3600,
        wait_before=waited[0] if waited else None,
        wait_after=waited[1] if waited else None,
    )


def _memory(s: Situation) -> Iterator[Saving]:
    asked, safe = s.memory, s.needs.memory_for(SAFE)
    if asked is None or safe is None or s.job.memory_per == "gpu":
        return
    if of_cause(s.failure, Outcome.OUT_OF_MEMORY) >= WORTH:
        return
    new = rounded_memory(max(safe * MARGIN, s.memory_floor or 0, _fair_share(s.job, s.place)))
    if asked < FAR * new:
        return
    option = "mem-per-cpu" if s.job.memory_per == "cpu" else "mem"
    after = megabytes(ceil(new / counted(s.job)))
    yield Saving(
        steps=(Statement(StepCode.LESS_MEMORY, {"asked": asked, "new": new}),),
        because=(usual(s.needs.memory_for, CauseCode.MEMORY_OF_SUCH_JOBS),),
        changes=(Change(option=option, before=written_memory(s.job), after=after),),
        resource="memory",
        asked=float(asked),
        enough=float(new),
        chance=1.0 - (s.needs.over_memory(new) or 0.0),
        risk_before=s.failure.probability,
        risk_after=s.failure.probability,
    )


def _fair_share(job: Job, place: PartitionNodes) -> float:
    """The memory that comes with its CPUs: whoever leaves that unused keeps nobody waiting."""
    each = [node.memory / node.cpus for node in place.nodes if node.memory and node.cpus]
    return min(each, default=0.0) * max(1.0, (job.cpus_asked or 1) / (job.nodes_asked or 1))
