"""Reasons that seem to point the wrong way: why jobs that went well can speak for failure all the same."""

from __future__ import annotations

from collections.abc import Mapping

from forewarn.assess.explanation.amounts import known
from forewarn.assess.explanation.groups import Group
from forewarn.features.evidence import in_words

_ENTITIES = {
    Group.REQUEST: ("user_request",),
    Group.NAME: ("user_name", "user_dir"),
    Group.USER: ("user",),
}
_LEARNT = ("online", "context_", "backoff_")  # rates and weights learnt from all that followed such outcomes


def all_the_same(
    group: Group, values: Mapping[str, float], weight: float, brought: Mapping[str, float], base_rate: float
) -> str:
    """What to add to a reason that would surprise: nothing where the jobs it tells of point its way.

    >>> well = {"user_request_streak": -5.0, "user_request_rate15": 0.0}
    >>> by = {"user_request_streak": -0.1, "user_request_since_end": 0.4}
    >>> all_the_same(Group.REQUEST, well, 0.3, by, 0.2)
    "; raises the risk all the same by: time since one of the user's jobs with this request ended"
    >>> all_the_same(Group.REQUEST, well, -0.3, by, 0.2)
    ''
    """
    entity = next((e for e in _ENTITIES.get(group, ()) if known(values, f"{e}_streak")), None)
    streak = known(values, f"{entity}_streak") if entity else None
    if not streak or not weight or (streak > 0) == (weight > 0):
        return ""
    rate = next((r for m in ("rate15", "rate100") if (r := known(values, f"{entity}_{m}")) is not None), None)
    if rate is not None and (rate > base_rate) == (weight > 0):
        return ""  # of more jobs than the last few, as the reason says, it is so
    towards = [name for name, by in brought.items() if (by > 0) == (weight > 0) and by]
    most = max(towards, key=lambda name: abs(brought[name]), default="")
    words = "what followed such outcomes before" if most.startswith(_LEARNT) else in_words(most)
    does = "raises" if weight > 0 else "lowers"
    return f"; {does} the risk all the same by: {words or most.replace('_', ' ')}"
