"""Amounts as they stand in a sentence."""

from __future__ import annotations

from forewarn.job.units import UNLIMITED, format_duration


def bytes_in_words(amount: float) -> str:
    """In the unit that keeps it short.

    >>> bytes_in_words(512 << 30), bytes_in_words(1536 << 20), bytes_in_words(100 << 20)
    ('512 GiB', '1.5 GiB', '100 MiB')
    """
    for unit, size in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if amount >= 10 * size or (amount >= size and (amount / size).is_integer()) or amount >= 1.2 * size:
            return f"{amount / size:,.1f}".removesuffix(".0") + f" {unit}"
    return f"{amount:,.0f} bytes"


def time_in_words(seconds: float) -> str:
    """As Slurm writes it.

    >>> time_in_words(93600), time_in_words(UNLIMITED)
    ('1-02:00:00', 'no limit')
    """
    return "no limit" if seconds >= UNLIMITED else format_duration(round(seconds))


def count_in_words(count: float, one: str, many: str | None = None) -> str:
    """A number of things.

    >>> count_in_words(1, "node"), count_in_words(1200, "CPU")
    ('1 node', '1,200 CPUs')
    """
    return f"{count:,.0f} {one if count == 1 else many or one + 's'}"
