"""Numbers as a person reads them: one form for each kind."""

from __future__ import annotations

import math
from collections.abc import Sequence

from forewarn.job.units import UNLIMITED, format_duration

_TIMES = ((86400 * 365, "year"), (86400, "day"), (3600, "hour"), (60, "minute"))
_SIZES = (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


def percent(share: float) -> str:
    """A share that is 0 or 100 only where it is that.

    >>> percent(0.314), percent(0.002), percent(0.999), percent(1.0)
    ('31%', '<1%', '>99%', '100%')
    """
    if 0 < share < 0.005:
        return "<1%"
    if 0.995 <= share < 1:
        return ">99%"
    return f"{100 * share:.0f}%"


def risk(probability: float) -> str:
    """A probability of failure, in whole percent: causes add up to it.

    >>> risk(0.314), risk(0.002)
    ('31%', '0%')
    """
    return f"{probability:.0%}"


def share_of_jobs(part: float, jobs: int) -> str:
    """A share of jobs, told no finer than they are many.

    >>> share_of_jobs(0.9999, 489), share_of_jobs(0.9999, 20_000), share_of_jobs(1.0, 489)
    ('99.7% of 489 jobs', '99.99% of 20,000 jobs', 'all 489 jobs')
    """
    if part >= 1:
        return f"all {jobs:,} jobs"
    digits = max(0, len(str(jobs)) - 2)
    whole = math.floor(part * jobs + 1e-9)  # jobs; a share is rounded down, so that it is not overstated
    shown = math.floor(100 * whole / jobs * 10**digits + 1e-9) / 10**digits
    return f"{shown:.10g}% of {jobs:,} jobs"


def duration(seconds: float) -> str:
    """A rough time, such as an age.

    >>> duration(45), duration(5400), duration(200_000), duration(float(UNLIMITED))
    ('45 seconds', '1.5 hours', '2.3 days', 'no limit')
    """
    if seconds >= UNLIMITED:
        return "no limit"
    for size, unit in _TIMES:
        if seconds >= size:
            return _rough(seconds / size, unit)
    return _rough(round(seconds), "second")


def _rough(number: float, unit: str) -> str:
    text = f"{number:.1f}".removesuffix(".0") if number < 10 else f"{number:.0f}"
    return f"{text} {unit}{'' if text == '1' else 's'}"


def clock(seconds: float) -> str:
    """A time as Slurm writes it, such as a limit.

    >>> clock(93600), clock(UNLIMITED)
    ('1-02:00:00', 'no limit')
    """
    return "no limit" if seconds >= UNLIMITED else format_duration(round(seconds))


def memory(amount: float) -> str:
    """Bytes in the unit that keeps them short.

    >>> memory(512 << 30), memory(1536 << 20), memory(100 << 20), memory(0)
    ('512 GiB', '1.5 GiB', '100 MiB', '0')
    """
    for unit, size in _SIZES:
        if amount >= 10 * size or (amount >= size and (amount / size).is_integer()) or amount >= 1.2 * size:
            return f"{amount / size:,.1f}".removesuffix(".0") + f" {unit}"
    return f"{amount:,.0f} bytes" if amount else "0"


def count(number: float, one: str, many: str | None = None) -> str:
    """A number of things.

    >>> count(1, "job"), count(12000, "job"), count(2, "CPU")
    ('1 job', '12,000 jobs', '2 CPUs')
    """
    return f"{number:,.0f} {one if round(number) == 1 else many or one + 's'}"


def times(ratio: float) -> str:
    """A ratio to something.

    >>> times(2.0), times(0.5), times(1.04), times(97.0), times(0.7)
    ('2 times', 'half', 'about', '97 times', '70% of')
    """
    if 0.9 <= ratio <= 1.12:
        return "about"
    if 0.45 <= ratio <= 0.55:
        return "half"
    if ratio < 0.9:
        return f"{percent(ratio)} of"
    text = f"{ratio:.1f}".removesuffix(".0") if ratio < 10 else f"{ratio:.0f}"
    return f"{text} times"


def listed(names: Sequence[str]) -> str:
    """Names one after another."""
    return ", ".join(names)


def capital(sentence: str) -> str:
    """As a sentence begins; a file's name is left as it is.

    >>> capital("this job cannot run"), capital("needs.py imports numpy"), capital("./solver does not exist")
    ('This job cannot run', 'needs.py imports numpy', './solver does not exist')
    """
    first = sentence.split(" ", 1)[0].rstrip(",.;:")
    return sentence[:1].upper() + sentence[1:] if first.replace("-", "").isalpha() else sentence
