"""Outcomes of earlier jobs: streaks, failure rates with counts, time since the last end."""

from __future__ import annotations

from forewarn.assess.explanation.feature_values import Features, feature_value
from forewarn.evidence import Value

_MEMORIES = (("rate15", 15), ("rate100", 100))


def history(features: Features, entity: str) -> dict[str, Value] | None:
    """Summarise the outcomes of an entity's jobs; None where none has ended.

    >>> many = {"user_streak": -2.0, "user_ended": 40.0, "user_rate15": 0.31, "user_since_end": 7200.0}
    >>> history(many, "user")
    {'streak': -2, 'ended': 40, 'failure_rate': 0.31, 'rate_jobs': 15, 'since_end': 7200.0}
    """
    values = streak(features, entity)
    if values is None:
        return None
    values |= _rate(features, entity)
    since = feature_value(features, f"{entity}_since_end")
    return values if since is None or since < 0 else values | {"since_end": since}


def streak(features: Features, entity: str) -> dict[str, Value] | None:
    """Return how many jobs in a row had the same outcome, positive for failures; None where none has ended.

    >>> streak({"user_request_streak": 3.0}, "user_request")
    {'streak': 3, 'ended': None}
    """
    in_a_row = feature_value(features, f"{entity}_streak")
    ended = feature_value(features, f"{entity}_ended")
    return {"streak": int(in_a_row), "ended": None if ended is None else int(ended)} if in_a_row else None


def _rate(features: Features, entity: str) -> dict[str, Value]:
    """Return a failure rate over more jobs than the streak; the rates decay, so the number is approximate."""
    in_a_row = abs(feature_value(features, f"{entity}_streak") or 0)
    ended = feature_value(features, f"{entity}_ended")
    for memory, jobs in _MEMORIES:
        rate = feature_value(features, f"{entity}_{memory}")
        number = jobs if ended is None else min(jobs, int(ended))
        if rate is not None and number > in_a_row:
            return {"failure_rate": rate, "rate_jobs": number}
    return {}
