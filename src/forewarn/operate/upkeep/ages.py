"""Ages as people write them: ``2years``, ``18 months``, ``90days``, or a number of days."""

from __future__ import annotations

import re

from forewarn.errors import UsageError

_DAYS = {"day": 1, "week": 7, "month": 30.4375, "year": 365.25}
_AGE = re.compile(r"(\d{1,6})\s*([a-z]*)")


def parse_age(text: str) -> int:
    """Read an age in days.

    >>> parse_age("2years"), parse_age("3 months"), parse_age("90")
    (730, 91, 90)
    """
    match = _AGE.fullmatch(text.strip().lower())
    number, unit = match.groups() if match else ("0", "")
    days = _DAYS.get(unit.removesuffix("s") or "day")
    if days is None or not int(number):
        raise UsageError(f"{text!r} is not an age: write 2years, 18months, 26weeks, 90days, or 90 for days")
    return int(int(number) * days)
