"""Reasons that seem to point the wrong way: why jobs that went well can speak for failure all the same."""

from __future__ import annotations

from collections.abc import Mapping

from forewarn.assess.explanation.feature_values import Features, known
from forewarn.assess.explanation.groups import EvidenceGroup
from forewarn.evidence import Value

_ENTITIES = {
    EvidenceGroup.REQUEST: ("user_request",),
    EvidenceGroup.NAME: ("user_name", "user_dir"),
    EvidenceGroup.USER: ("user",),
}


def contradiction(
    group: EvidenceGroup, features: Features, weight: float, brought: Mapping[str, float], base_rate: float
) -> dict[str, Value]:
    """What to add to a reason that would surprise: nothing where the jobs that it is about point its way.

    `nonetheless` is what it does to the risk, `by` the feature that brings most of that.

    >>> well = {"user_request_streak": -5.0, "user_request_rate15": 0.0}
    >>> by = {"user_request_streak": -0.1, "user_request_since_end": 0.4}
    >>> contradiction(EvidenceGroup.REQUEST, well, 0.3, by, 0.2)
    {'nonetheless': 'raises', 'by': 'user_request_since_end'}
    >>> contradiction(EvidenceGroup.REQUEST, well, -0.3, by, 0.2)
    {}
    """
    entity = next((e for e in _ENTITIES.get(group, ()) if known(features, f"{e}_streak")), None)
    streak = known(features, f"{entity}_streak") if entity else None
    if not streak or not weight or (streak > 0) == (weight > 0):
        return {}
    rates = (known(features, f"{entity}_{memory}") for memory in ("rate15", "rate100"))
    rate = next((rate for rate in rates if rate is not None), None)
    if rate is not None and (rate > base_rate) == (weight > 0):
        return {}  # of more jobs than the last few, as the reason says, it is so
    towards = [name for name, by in brought.items() if (by > 0) == (weight > 0) and by]
    most = max(towards, key=lambda name: abs(brought[name]), default=None)
    return {"nonetheless": "raises" if weight > 0 else "lowers", "by": most}
