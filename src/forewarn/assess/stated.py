"""The risk that is stated of a job: one number, with the causes that add up to it.

Of running out of memory or time there are two opinions: the model of failures, by its causes, and the job's
foreseen needs against what it asks for. They are pooled by the mean of their log odds, which does better than
either, and than the larger of the two: `docs/measurements.md#one-risk`. A sick node that the job may be given
adds to that. Everything else is the model's.

Causes are taken as competing hazards: the first to strike is the one that is seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import exp, log, log1p

from forewarn.assess.assessment import CauseOfFailure, Failure
from forewarn.job.outcomes import Outcome

CERTAIN = 1e-3  # no opinion counts as surer than this, in either direction
_MEMORY, _TIME, _NODE = str(Outcome.OUT_OF_MEMORY), str(Outcome.TIMEOUT), str(Outcome.NODE_FAIL)


def stated(
    failure: Failure,
    *,
    over_memory: float | None = None,
    over_limit: float | None = None,
    node_risk: float = 0.0,
) -> Failure:
    """The model's failure with the job's needs and nodes in it.

    Parameters
    ----------
    over_memory, over_limit
        The foreseen probability of needing more than asked for; None where nothing is foreseen.
    node_risk
        The probability of failing because of a sick node.
    """
    own = failure.probability
    if not failure.causes:  # nothing tells which part of the risk the needs speak about
        return replace(failure, model_probability=own)
    hazards = _hazards(failure)
    for outcome, over in ((_MEMORY, over_memory), (_TIME, over_limit)):
        if over is not None:
            there = {key: value for key, value in hazards.items() if key[0] == outcome}
            hazards |= _scaled(there or {(outcome, "limit"): 0.0}, -log1p(-_pooled(there, over)))
    if node_risk > 0:
        node = next((key for key in hazards if key[0] == _NODE), (_NODE, "system"))
        hazards[node] = hazards.get(node, 0.0) - log1p(-min(node_risk, 1 - CERTAIN))
    whole = sum(hazards.values())
    probability = 1 - exp(-whole)
    causes = [
        CauseOfFailure(outcome=outcome, kind=kind, probability=probability * hazard / whole if whole else 0.0)
        for (outcome, kind), hazard in hazards.items()
    ]
    return replace(
        failure,
        probability=probability,
        warns=probability >= failure.threshold,
        causes=tuple(sorted(causes, key=lambda cause: -cause.probability)),
        model_probability=own,
    )


def of_cause(failure: Failure | None, *outcomes: Outcome) -> float:
    """The stated probability of failing of some causes."""
    return sum(cause.probability for cause in failure.causes if cause.outcome in outcomes) if failure else 0.0


_Hazards = dict[tuple[str, str | None], float]


def _hazards(failure: Failure) -> _Hazards:
    """Each cause's part of -log(1 - probability)."""
    whole = -log1p(-min(failure.probability, 1 - CERTAIN))
    shares = sum(cause.probability for cause in failure.causes) or 1.0
    return {(c.outcome, c.kind): whole * c.probability / shares for c in failure.causes}


def _pooled(there: Mapping[tuple[str, str | None], float], over: float) -> float:
    """The mean opinion, in log odds, of the model and of the needs on one limit."""
    by_model = 1 - exp(-sum(there.values()))
    return 1 / (1 + exp(-(_log_odds(by_model) + _log_odds(over)) / 2))


def _scaled(there: Mapping[tuple[str, str | None], float], hazard: float) -> _Hazards:
    total = sum(there.values())
    return {key: hazard * (value / total if total else 1 / len(there)) for key, value in there.items()}


def _log_odds(p: float) -> float:
    p = min(max(p, CERTAIN), 1 - CERTAIN)
    return log(p / (1 - p))
