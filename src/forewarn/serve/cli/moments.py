"""Moments as people write them on a command line, the way sacct takes them."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from forewarn.errors import UsageError

_RELATIVE = re.compile(r"now(?:\s*([+-])\s*(\d+)\s*([a-z]*))?")
_UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}
_EPOCH = re.compile(r"\d{9,11}")


def parse_moment(text: str, zone: str, now: datetime) -> int:
    """Unix seconds of a moment: ISO in the cluster's zone, ``now-7days``, ``today``, or Unix seconds.

    >>> noon = datetime(2024, 5, 2, 12, tzinfo=ZoneInfo("UTC"))
    >>> parse_moment("2024-05-01T10:00", "Europe/Zurich", noon) == parse_moment("now-28hours", "UTC", noon)
    True
    """
    said = text.strip().lower()
    match = _RELATIVE.fullmatch(said)
    if match is not None:
        sign, number, unit = match.groups()
        step = int(number or 0) * _unit(unit, text)
        return int(now.timestamp()) + (step if sign == "+" else -step)
    days_before = {"today": 0, "midnight": 0, "yesterday": 1}.get(said)
    if days_before is not None:
        day = now.astimezone(ZoneInfo(zone)).date() - timedelta(days=days_before)
        return int(datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(zone)).timestamp())
    if _EPOCH.fullmatch(said):
        return int(said)
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise _not_a_moment(text) from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=ZoneInfo(zone))).timestamp())


def _unit(unit: str | None, text: str) -> int:
    """Seconds of a unit; sacct counts a lone number in seconds and takes units in short."""
    if not unit:
        return 1
    found = [seconds for name, seconds in _UNITS.items() if (name + "s").startswith(unit) or name == unit]
    if len(found) != 1:
        raise _not_a_moment(text)
    return found[0]


def _not_a_moment(text: str) -> UsageError:
    return UsageError(
        f"not a moment: {text!r}. Write 2024-01-31, 2024-01-31T13:30, now-7days, today, or Unix seconds"
    )
