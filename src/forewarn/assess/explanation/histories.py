"""What became of some earlier jobs: streaks, rates with counts, since when."""

from __future__ import annotations

from forewarn.assess.explanation.feature_values import Features, known
from forewarn.evidence import Value

_MEMORIES = (("rate15", 15), ("rate100", 100))


def history(features: Features, entity: str) -> dict[str, Value] | None:
    """How jobs of an entity ended; None where none has.

    >>> many = {"user_streak": -2.0, "user_ended": 40.0, "user_rate15": 0.31, "user_since_end": 7200.0}
    >>> history(many, "user")
    {'streak': -2, 'ended': 40, 'failure_rate': 0.31, 'rate_jobs': 15, 'since_end': 7200.0}
    """
    found = streak(features, entity)
    if found is None:
        return None
    found |= _rate(features, entity)
    since = known(features, f"{entity}_since_end")
    return found if since is None or since < 0 else found | {"since_end": since}


def streak(features: Features, entity: str) -> dict[str, Value] | None:
    """How many ended alike in a row, those that failed as a positive number; None where none has ended.

    >>> streak({"user_request_streak": 3.0}, "user_request")
    {'streak': 3, 'ended': None}
    """
    row, ended = known(features, f"{entity}_streak"), known(features, f"{entity}_ended")
    return {"streak": int(row), "ended": None if ended is None else int(ended)} if row else None


def _rate(features: Features, entity: str) -> dict[str, Value]:
    """The failure rate over more jobs than the streak is long; memories fade, so their number is rough."""
    row, ended = abs(known(features, f"{entity}_streak") or 0), known(features, f"{entity}_ended")
    for memory, jobs in _MEMORIES:
        rate = known(features, f"{entity}_{memory}")
        number = jobs if ended is None else min(jobs, int(ended))
        if rate is not None and number > row:
            return {"failure_rate": rate, "rate_jobs": number}
    return {}
