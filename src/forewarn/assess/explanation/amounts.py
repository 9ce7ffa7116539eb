"""Numbers as a person says them."""

from __future__ import annotations

import math
from collections.abc import Mapping

from forewarn.job.units import UNLIMITED

_TIMES = ((86400 * 365, "year"), (86400, "day"), (3600, "hour"), (60, "minute"))


def known(values: Mapping[str, float], name: str) -> float | None:
    """A feature's value, or None where it is missing."""
    value = values.get(name)
    return None if value is None or math.isnan(value) else float(value)


def percent(share: float) -> str:
    """A share that is 0 or 100 only where it is that.

    >>> percent(0.314), percent(0.002), percent(1.0)
    ('31 %', '<1 %', '100 %')
    """
    if 0 < share < 0.005:
        return "<1 %"
    if 0.995 <= share < 1:
        return ">99 %"
    return f"{100 * share:.0f} %"


def duration(seconds: float) -> str:
    """
    >>> duration(45), duration(5400), duration(200_000), duration(float(UNLIMITED))
    ('45 seconds', '1.5 hours', '2.3 days', 'no limit')
    """
    if seconds >= UNLIMITED:
        return "no limit"
    for size, unit in _TIMES:
        if seconds >= size:
            return _counted(seconds / size, unit)
    return _counted(round(seconds), "second")


def _counted(number: float, unit: str) -> str:
    text = f"{number:.1f}".removesuffix(".0") if number < 10 else f"{number:.0f}"
    return f"{text} {unit}{'' if text == '1' else 's'}"


def memory(size: float) -> str:
    """
    >>> memory(8 << 30), memory(1.5 * (1 << 20)), memory(0)
    ('8 GiB', '1.5 MiB', '0')
    """
    for unit, scale in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= scale:
            number = size / scale
            text = f"{number:.1f}".removesuffix(".0") if number < 100 else f"{number:.0f}"
            return f"{text} {unit}"
    return "0" if size == 0 else f"{size:.0f} bytes"


def count(number: float, one: str, many: str | None = None) -> str:
    """
    >>> count(1, "job"), count(12000, "job"), count(2, "CPU")
    ('1 job', '12,000 jobs', '2 CPUs')
    """
    return f"{number:,.0f} {one if round(number) == 1 else many or one + 's'}"


def times(log2_ratio: float) -> str:
    """A ratio that a feature gives as its logarithm.

    >>> times(1.0), times(-1.0), times(0.05), times(6.6)
    ('2 times', 'half', 'about', '97 times')
    """
    ratio = 2.0**log2_ratio
    if 0.9 <= ratio <= 1.12:
        return "about"
    if 0.45 <= ratio <= 0.55:
        return "half"
    if ratio < 0.9:
        return f"{percent(ratio)} of"
    text = f"{ratio:.1f}".removesuffix(".0") if ratio < 10 else f"{ratio:.0f}"
    return f"{text} times"
