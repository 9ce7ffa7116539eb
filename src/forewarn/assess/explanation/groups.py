"""Which kind of evidence each column of a model is: every column belongs to exactly one.

A person asks about their jobs with this request, the time limit, the memory, how the cluster fares: not
about two hundred columns.
"""

from __future__ import annotations

from collections.abc import Mapping

from forewarn.features.column_meaning import EvidenceGroup, evidence_of

__all__ = ["EvidenceGroup", "group_of", "resolved"]


def group_of(column: str) -> EvidenceGroup:
    """The kind of evidence that a column of a model is.

    >>> group_of("user_request_streak"), group_of("similar_limit_ratio"), group_of("script_rate15")
    (<EvidenceGroup.REQUEST: 'same_request'>, <EvidenceGroup.TIME_LIMIT: 'time_limit'>, <EvidenceGroup.OTHERS: 'others_jobs'>)
    """
    return evidence_of(column).group


def resolved(group: EvidenceGroup, values: Mapping[str, float]) -> EvidenceGroup:
    """Where a column's contribution is told: the online regression's with what it rests on for this job.

    That is the narrowest history there is: its weights are those of the user, the request, the name and
    their latest outcomes.

    >>> resolved(EvidenceGroup.LEARNT, {"user_ended": 12.0, "user_request_ended": 0.0})
    <EvidenceGroup.USER: 'recent_jobs'>
    """
    if group is not EvidenceGroup.LEARNT:
        return group
    for whose, history in (
        ("user_request", EvidenceGroup.REQUEST),
        ("user_name", EvidenceGroup.NAME),
        ("user", EvidenceGroup.USER),
    ):
        if values.get(f"{whose}_ended", 0.0) > 0:
            return history
    return EvidenceGroup.OTHERS
