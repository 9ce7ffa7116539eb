"""The parts of a stated risk: by cause, and with a sick node in it.

`learn/pooling.py` states the risk of a job: the model of failure pooled with its forecast needs. A sick node
that the job may be given adds to that, since no training knows which nodes are sick today.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import exp, log1p

from forewarn.assess.assessment import CauseOfFailure, Failure
from forewarn.job.outcomes import Outcome
from forewarn.learn.pooling import CERTAIN


def with_node_risk(failure: Failure, node_risk: float) -> Failure:
    """Add the probability of failing because of a sick node: as one more competing hazard."""
    if node_risk <= 0:
        return failure
    own = -log1p(-min(failure.probability, 1 - CERTAIN))
    more = -log1p(-min(node_risk, 1 - CERTAIN))
    probability = 1 - exp(-own - more)
    # Of a model that tells no causes, all of its own risk is left without one.
    parts = {(c.outcome, c.kind): c.probability / failure.probability * own for c in failure.causes}
    node = next((key for key in parts if key[0] == Outcome.NODE_FAIL), (str(Outcome.NODE_FAIL), "system"))
    parts[node] = parts.get(node, 0.0) + more
    causes = [
        CauseOfFailure(outcome=outcome, kind=kind, probability=probability * part / (own + more))
        for (outcome, kind), part in parts.items()
    ]
    return replace(
        failure,
        probability=probability,
        warns=probability >= failure.threshold,
        causes=tuple(sorted(causes, key=lambda cause: -cause.probability)),
    )


def with_other_excess(
    failure: Failure, before: Mapping[Outcome, float], after: Mapping[Outcome, float]
) -> Failure:
    """The same risk with the chances to exceed a request changed: each such cause in proportion."""
    both = before.keys() & after.keys()
    times = {str(outcome): after[outcome] / max(before[outcome], CERTAIN) for outcome in both}
    causes = tuple(
        replace(cause, probability=min(1.0, cause.probability * times.get(cause.outcome, 1.0)))
        for cause in failure.causes
    )
    moved = sum(cause.probability for cause in causes) - sum(cause.probability for cause in failure.causes)
    probability = min(1.0, max(0.0, failure.probability + moved))
    return replace(failure, probability=probability, warns=probability >= failure.threshold, causes=causes)


def of_cause(failure: Failure | None, *outcomes: Outcome) -> float:
    """The stated probability of failing of some causes."""
    return sum(cause.probability for cause in failure.causes if cause.outcome in outcomes) if failure else 0.0
