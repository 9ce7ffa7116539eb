"""Adjustments of a stated risk: the causes of the user's own failures, and sick nodes.

`learn/fitting/pooling.py` states the risk of a job: the failure model pooled with the usage forecasts. A sick
node that the job may get adds to it, since training cannot know which nodes are sick today. How the user's
own runs of the same job failed shifts the causes: a model with few failures knows only the overall shares.
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
from forewarn.learn.fitting.own_record import LONGEST_RECORD, PRIOR, uniform_record
from forewarn.learn.fitting.pooling import CERTAIN


class OwnFailures(NamedTuple):
    """How a user's runs of the same job failed, where all of them failed."""

    runs: float  # 0: not all of them failed, or there were too few
    killed_for_memory: float  # share of the runs
    at_limit: float  # share of the runs


def own_failures(part: JobTable) -> list[OwnFailures]:
    """Read the user's own failures of each job of a table from its history features."""
    runs = np.minimum(np.maximum(or_zero(uniform_record(part.column)), 0), LONGEST_RECORD)
    memory, limit = (or_zero(part.column(f"user_name_{what}15")) for what in ("memory", "limit"))
    columns = (column.tolist() for column in (runs, memory, limit))
    return [OwnFailures(*row) for row in zip(*columns, strict=True)]


def with_own_failures(failure: Failure, own: OwnFailures) -> Failure:
    """Shift the causes towards those of the user's own failures; the probability stays."""
    if not own.runs or not failure.causes:
        return failure
    share, limits = own.runs / (own.runs + PRIOR), (Outcome.OUT_OF_MEMORY, Outcome.TIMEOUT)
    own_shares = dict(zip(limits, (own.killed_for_memory, own.at_limit), strict=True))
    rest = max(0.0, 1 - sum(own_shares.values()))
    others = sum(c.probability for c in failure.causes if c.outcome not in limits)
    causes = {(c.outcome, c.kind): (1 - share) * c.probability for c in failure.causes}
    for cause in failure.causes:
        if cause.outcome not in limits and others > 0:
            part = rest * cause.probability / others
            causes[cause.outcome, cause.kind] += share * failure.probability * part
    for outcome, part in own_shares.items():
        key = next((k for k in causes if k[0] == outcome), (str(outcome), str(FailureKind.LIMIT)))
        if part > 0:
            causes[key] = causes.get(key, 0.0) + share * failure.probability * part
    whole = sum(causes.values())
    shifted = [
        CauseOfFailure(outcome=outcome, kind=kind, probability=failure.probability * p / whole)
        for (outcome, kind), p in causes.items()
    ]
    return replace(
        failure, causes=tuple(sorted(shifted, key=lambda cause: -cause.probability)), causes_learnt=True
    )


def with_node_risk(failure: Failure, node_risk: float) -> Failure:
    """Add the risk from sick nodes as one more competing hazard."""
    if node_risk <= 0:
        return failure
    own = -log1p(-min(failure.probability, 1 - CERTAIN))
    more = -log1p(-min(node_risk, 1 - CERTAIN))
    probability = 1 - exp(-own - more)
    # Without a cause model, the model's own risk stays without a cause.
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
    """Scale time-outs and out-of-memory failures by the change in the probability of exceeding a request."""
    both = before.keys() & after.keys()
    factors = {str(outcome): after[outcome] / max(before[outcome], CERTAIN) for outcome in both}
    causes = tuple(
        replace(cause, probability=min(1.0, cause.probability * factors.get(cause.outcome, 1.0)))
        for cause in failure.causes
    )
    moved = sum(cause.probability for cause in causes) - sum(cause.probability for cause in failure.causes)
    probability = min(1.0, max(0.0, failure.probability + moved))
    return replace(failure, probability=probability, warns=probability >= failure.threshold, causes=causes)


def cause_probability(failure: Failure | None, *outcomes: Outcome) -> float:
    """Return the stated probability of failing from some causes."""
    return sum(cause.probability for cause in failure.causes if cause.outcome in outcomes) if failure else 0.0
