"""What became of some earlier jobs, in a few words: streaks, rates with counts, since when."""

from __future__ import annotations

from collections.abc import Mapping

from forewarn.assess.explanation.amounts import duration, known, percent

_MEMORIES = (("rate15", 15), ("rate100", 100))


def history(values: Mapping[str, float], entity: str, whose: str, which: str = "") -> str | None:
    """How jobs of an entity ended; None where none has.

    >>> one = {"user_request_streak": 3.0, "user_request_ended": 3.0}
    >>> history(one, "user_request", "your", "with this request")
    'all 3 of your jobs with this request failed'
    >>> many = {"user_streak": -2.0, "user_ended": 40.0, "user_rate15": 0.31, "user_since_end": 7200.0}
    >>> history(many, "user", "your")
    'your last 2 jobs went well; of about the last 15, 31 % failed; the last ended 2 hours ago'
    """
    said = streak(values, entity, whose, which)
    if said is None:
        return None
    parts = [said]
    if (rate := _rate(values, entity)) is not None:
        parts.append(rate)
    since = known(values, f"{entity}_since_end")
    if since is not None and since >= 0:
        parts.append(f"the last ended {duration(since)} ago")
    return "; ".join(parts)


def streak(values: Mapping[str, float], entity: str, whose: str, which: str = "") -> str | None:
    """How many ended alike in a row; None where none has ended."""
    row, ended = known(values, f"{entity}_streak"), known(values, f"{entity}_ended")
    if not row:
        return None
    number = abs(int(row))
    if ended is not None and number >= ended:
        jobs = f"{whose} only job" if number == 1 else f"all {number} of {whose} jobs"
    else:
        jobs = f"{whose} last job" if number == 1 else f"{whose} last {number} jobs"
    return " ".join(part for part in (jobs, which, "failed" if row > 0 else "went well") if part)


def _rate(values: Mapping[str, float], entity: str) -> str | None:
    """The failure rate over more jobs than the streak is long; memories fade, so it is about."""
    row, ended = abs(known(values, f"{entity}_streak") or 0), known(values, f"{entity}_ended")
    for memory, jobs in _MEMORIES:
        rate = known(values, f"{entity}_{memory}")
        number = jobs if ended is None else min(jobs, int(ended))
        if rate is not None and number > row:
            return f"of about the last {number}, {percent(rate)} failed"
    return None
