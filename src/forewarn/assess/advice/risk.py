"""The risk of a job by what it rests on, so that it can be told what a change takes away.

Of running out of memory or time there are two opinions: the model of failures, by its causes, and the job's
needs against what it asks for. The larger one counts. What is left of the model's probability is of causes
that no request changes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from forewarn.assess.advice.needs import Needs
from forewarn.assess.assessment import Failure
from forewarn.job.outcomes import Outcome

MEMORY, TIME, NODE = str(Outcome.OUT_OF_MEMORY), str(Outcome.TIMEOUT), str(Outcome.NODE_FAIL)


@dataclass(frozen=True, slots=True)
class Risk:
    """Probabilities of failing of each, each as if the others were not."""

    memory: float
    time: float
    other: float

    @property
    def whole(self) -> float:
        """Of failing at all."""
        return 1 - (1 - self.memory) * (1 - self.time) * (1 - self.other)

    def with_memory(self, over: float) -> Risk:
        """The same job with a request that it outgrows with this probability."""
        return replace(self, memory=min(self.memory, over))

    def with_time(self, over: float) -> Risk:
        """The same job with a limit that it outruns with this probability."""
        return replace(self, time=min(self.time, over))


def risk_of(failure: Failure | None, needs: Needs, memory: float | None, limit: float | None) -> Risk:
    """The risk of a job that asks for this much memory on a node, and this time."""
    told = {cause.outcome: 0.0 for cause in failure.causes} if failure else {}
    for cause in failure.causes if failure else ():
        told[cause.outcome] += cause.probability
    whole = failure.probability if failure else 0.0
    by_memory, by_time = told.get(MEMORY, 0.0), told.get(TIME, 0.0)
    over_memory = needs.over_memory(memory) if memory else None
    over_limit = needs.over_limit(limit) if limit else None
    return Risk(
        memory=max(by_memory, over_memory or 0.0),
        time=max(by_time, over_limit or 0.0),
        other=max(0.0, whole - by_memory - by_time),
    )
