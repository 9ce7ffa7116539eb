"""The evidence group of each column of a model: every column belongs to exactly one.

People ask about their jobs with this request, the time limit, the memory or the state of the cluster, not
about two hundred columns.
"""

from __future__ import annotations

from collections.abc import Mapping

from forewarn.features.column_meaning import EvidenceGroup, evidence_of

__all__ = ["EvidenceGroup", "group_of", "resolved"]


def group_of(column: str) -> EvidenceGroup:
    """Return the evidence group of a column.

    >>> [str(group_of(name)) for name in ("user_request_streak", "similar_limit_ratio", "script_rate15")]
    ['same_request', 'time_limit', 'others_jobs']
    """
    return evidence_of(column).group


def resolved(group: EvidenceGroup, values: Mapping[str, float]) -> EvidenceGroup:
    """Return the group that a contribution is shown under; the online regression's is that of its history.

    That is the narrowest history with ended jobs, since its weights are those of the user, the request, the
    name and their latest outcomes.

    >>> resolved(EvidenceGroup.LEARNT, {"user_ended": 12.0, "user_request_ended": 0.0})
    <EvidenceGroup.USER: 'recent_jobs'>
    """
    if group is not EvidenceGroup.LEARNT:
        return group
    for entity, history in (
        ("user_request", EvidenceGroup.REQUEST),
        ("user_name", EvidenceGroup.NAME),
        ("user", EvidenceGroup.USER),
    ):
        if values.get(f"{entity}_ended", 0.0) > 0:
            return history
    return EvidenceGroup.OTHERS
