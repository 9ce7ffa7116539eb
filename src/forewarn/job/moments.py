"""Moments as people and programs write them: as sacct takes them, as Unix seconds, or as a datetime."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from forewarn.errors import UsageError

_RELATIVE = re.compile(r"now(?:\s*([+-])\s*(\d+)\s*([a-z]*))?")
_UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}
_EPOCH = re.compile(r"\d{9,11}")

Moment = str | int | datetime


def unix_seconds(moment: Moment, zone: str = "UTC", now: datetime | None = None) -> int:
    """Convert a moment to Unix seconds; a text or datetime without a zone is in the cluster's.

    >>> unix_seconds(datetime(2024, 5, 1, 2), "Europe/Zurich") == unix_seconds("2024-05-01T00:00Z")
    True
    """
    if isinstance(moment, str):
        return parse_moment(moment, zone, now or datetime.now(UTC))
    if isinstance(moment, datetime):
        return int((moment if moment.tzinfo else moment.replace(tzinfo=ZoneInfo(zone))).timestamp())
    return int(moment)


def parse_moment(text: str, zone: str, now: datetime) -> int:
    """Read a moment as Unix seconds: ISO in the cluster's zone, ``now-7days``, ``today``, or Unix seconds.

    >>> noon = datetime(2024, 5, 2, 12, tzinfo=ZoneInfo("UTC"))
    >>> parse_moment("2024-05-01T10:00", "Europe/Zurich", noon) == parse_moment("now-28hours", "UTC", noon)
    True
    """
    lowered = text.strip().lower()
    match = _RELATIVE.fullmatch(lowered)
    if match is not None:
        sign, number, unit = match.groups()
        step = int(number or 0) * _unit(unit, text)
        return int(now.timestamp()) + (step if sign == "+" else -step)
    days_before = {"today": 0, "midnight": 0, "yesterday": 1}.get(lowered)
    if days_before is not None:
        day = now.astimezone(ZoneInfo(zone)).date() - timedelta(days=days_before)
        return int(datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(zone)).timestamp())
    if _EPOCH.fullmatch(lowered):
        return int(lowered)
    try:
        return unix_seconds(datetime.fromisoformat(text.strip()), zone)
    except ValueError:
        raise _not_a_moment(text) from None


def _unit(unit: str | None, text: str) -> int:
    """Return the seconds of a unit; sacct counts a lone number in seconds and accepts shortened units."""
    if not unit:
        return 1
    found = [seconds for name, seconds in _UNITS.items() if (name + "s").startswith(unit) or name == unit]
    if len(found) != 1:
        raise _not_a_moment(text)
    return found[0]


def _not_a_moment(text: str) -> UsageError:
    return UsageError(
        f"not a time: {text!r}; use 2024-01-31, 2024-01-31T13:30, now-7days, today, or Unix seconds"
    )
