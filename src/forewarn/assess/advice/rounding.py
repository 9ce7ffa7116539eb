"""Round amounts up a little, to values that a person would request."""

from __future__ import annotations

from math import ceil, floor, log2

_MIB = 1 << 20
_STEPS = ((7200, 300), (8 * 3600, 900), (86400, 1800))  # (up to this many seconds, step in seconds)


def rounded_memory(amount: float) -> int:
    """Round bytes up in steps between 1/32 and 1/16 of the amount, at least 64 MiB.

    >>> [rounded_memory(x * 2**30) / 2**30 for x in (0.9, 3.1, 24.3, 250)]
    [0.9375, 3.125, 25.0, 256.0]
    """
    step = max(64 * _MIB, (1 << floor(log2(max(amount, 1)))) // 16)
    return ceil(amount / step) * step


def rounded_time(seconds: float) -> int:
    """Round seconds up, in steps of 5 minutes up to two hours and of an hour beyond a day.

    >>> [rounded_time(x) / 60 for x in (100, 3601, 10000, 40000, 100000)]
    [5.0, 65.0, 180.0, 690.0, 1680.0]
    """
    step = next((step for most, step in _STEPS if seconds <= most), 3600)
    return ceil(seconds / step) * step
