"""Reasons that seem to point the wrong way: completed jobs can still raise the risk."""

from __future__ import annotations

from collections.abc import Mapping

from forewarn.assess.explanation.feature_values import Features, feature_value
from forewarn.assess.explanation.groups import EvidenceGroup
from forewarn.evidence import Value

_ENTITIES = {
    EvidenceGroup.REQUEST: ("user_request",),
    EvidenceGroup.NAME: ("user_name", "user_dir"),
    EvidenceGroup.USER: ("user",),
}


def contradiction(
    group: EvidenceGroup,
    features: Features,
    weight: float,
    contributions: Mapping[str, float],
    base_rate: float,
) -> dict[str, Value]:
    """Return values that explain a surprising reason; nothing where its jobs point in its direction.

    `nonetheless` is its effect on the risk, `by` the feature that contributes most to it.

    >>> well = {"user_request_streak": -5.0, "user_request_rate15": 0.0}
    >>> by = {"user_request_streak": -0.1, "user_request_since_end": 0.4}
    >>> contradiction(EvidenceGroup.REQUEST, well, 0.3, by, 0.2)
    {'nonetheless': 'raises', 'by': 'user_request_since_end'}
    >>> contradiction(EvidenceGroup.REQUEST, well, -0.3, by, 0.2)
    {}
    """
    entity = next((e for e in _ENTITIES.get(group, ()) if feature_value(features, f"{e}_streak")), None)
    streak = feature_value(features, f"{entity}_streak") if entity else None
    if not streak or not weight or (streak > 0) == (weight > 0):
        return {}
    rates = (feature_value(features, f"{entity}_{memory}") for memory in ("rate15", "rate100"))
    rate = next((rate for rate in rates if rate is not None), None)
    if rate is not None and (rate > base_rate) == (weight > 0):
        return {}  # over more jobs than the last few, the history agrees with the weight
    same_sign = [name for name, by in contributions.items() if (by > 0) == (weight > 0) and by]
    most = max(same_sign, key=lambda name: abs(contributions[name]), default=None)
    return {"nonetheless": "raises" if weight > 0 else "lowers", "by": most}
