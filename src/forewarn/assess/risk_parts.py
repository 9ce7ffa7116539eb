"""The parts of a stated risk: by cause, and with a sick node in it.

`learn/fitting/pooling.py` states the risk of a job: the model of failure pooled with its forecast needs. A sick node
that the job may be given adds to that, since no training knows which nodes are sick today. What a user's own
runs of this very job died of counts among its causes: a model of few failures knows only the usual shares.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import exp, log1p
from typing import NamedTuple

import numpy as np

from forewarn.assess.assessment import CauseOfFailure, Failure
from forewarn.job.outcomes import FailureKind, Outcome
from forewarn.learn.data.matrix import or_zero
from forewarn.learn.data.table import JobTable
from forewarn.learn.fitting.own_record import MOST_ALIKE, PRIOR, alike
from forewarn.learn.fitting.pooling import CERTAIN


class OwnFailures(NamedTuple):
    """How a user's runs of this very job ended, which all failed."""

    runs: float  # 0: not all failed, or there were too few
    killed_for_memory: float  # share of them
    at_limit: float


def own_endings(part: JobTable) -> list[OwnFailures]:
    """What the history tells of each job of a table."""
    runs = np.minimum(np.maximum(or_zero(alike(part.column)), 0), MOST_ALIKE)
    memory, limit = (or_zero(part.column(f"user_name_{what}15")) for what in ("memory", "limit"))
    return [OwnFailures(*map(float, row)) for row in zip(runs, memory, limit, strict=True)]


def with_own_endings(failure: Failure, own: OwnFailures) -> Failure:
    """Shift the causes towards what the user's own runs failed of; the probability stays."""
    if not own.runs or not failure.causes:
        return failure
    share, limits = own.runs / (own.runs + PRIOR), (Outcome.OUT_OF_MEMORY, Outcome.TIMEOUT)
    theirs = dict(zip(limits, (own.killed_for_memory, own.at_limit), strict=True))
    rest = max(0.0, 1 - sum(theirs.values()))
    others = sum(c.probability for c in failure.causes if c.outcome not in limits)
    causes = {(c.outcome, c.kind): (1 - share) * c.probability for c in failure.causes}
    for cause in failure.causes:
        if cause.outcome not in limits and others > 0:
            part = rest * cause.probability / others
            causes[cause.outcome, cause.kind] += share * failure.probability * part
    for outcome, part in theirs.items():
        key = next((k for k in causes if k[0] == outcome), (str(outcome), str(FailureKind.LIMIT)))
        if part > 0:
            causes[key] = causes.get(key, 0.0) + share * failure.probability * part
    whole = sum(causes.values())
    made = [
        CauseOfFailure(outcome=outcome, kind=kind, probability=failure.probability * p / whole)
        for (outcome, kind), p in causes.items()
    ]
    return replace(
        failure, causes=tuple(sorted(made, key=lambda cause: -cause.probability)), causes_learnt=True
    )


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
