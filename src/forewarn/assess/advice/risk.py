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


def risk_of(
    failure: Failure | None,
    needs: Needs,
    memory: float | None,
    limit: float | None,
    *,
    node_risk: float = 0.0,
) -> Risk:
    """The risk of a job that asks for this much memory on a node, and this time.

    With `node_risk`, that of a sick node is counted apart from it.
    """
    by_memory, by_time, by_node = (
        _alone(failure, outcome) for outcome in (Outcome.OUT_OF_MEMORY, Outcome.TIMEOUT, Outcome.NODE_FAIL)
    )
    whole = failure.probability if failure else 0.0
    rest = 1 - (1 - whole) / ((1 - by_memory) * (1 - by_time) * (1 - (by_node if node_risk else 0.0)))
    over_memory = needs.over_memory(memory) if memory else None
    over_limit = needs.over_limit(limit) if limit else None
    return Risk(
        memory=max(by_memory, over_memory or 0.0),
        time=max(by_time, over_limit or 0.0),
        other=min(max(rest, 0.0), 1.0),
    )


def _alone(failure: Failure | None, outcome: Outcome) -> float:
    """The probability of one way to fail if there were no other: those of all multiply to the whole.

    A model's causes are shares of one probability, of which only the first to strike is seen.
    """
    if failure is None or not 0 < failure.probability < 1:
        return 0.0
    share = sum(c.probability for c in failure.causes if c.outcome == str(outcome)) / failure.probability
    return float(1 - (1 - failure.probability) ** min(share, 1.0))
