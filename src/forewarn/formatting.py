"""Format numbers for people: one form for each kind of value, in all output.

=====================  ===========================================  ====================================
percentages            ``17%``, ``<1%``, ``>99%``                   `percent`
shares in tables       ``13.8%``, ``<0.1%``                         `percent_in_table`
amounts of memory      ``23.4 GiB``                                 `byte_size`
durations              ``1:47:57``, ``2-03:00:00``                  `duration`, `time_limit`
ages and rough spans   ``17 hours``                                 `rough_duration`
computation times      ``0.7 s``, ``3.4 minutes``                   `elapsed`
times                  ``2024-03-07 17:36:52``                      `timestamp`, `date`
counts                 ``13,145``, ``13,145 jobs``                  `number`, `count`
statistical measures   ``0.754``, ``+0.050``, ``[0.692, 0.810]``    `measure`, `difference`, `interval`
ratios                 ``4.4 times``                                `times`
other numbers          ``0.0123``, ``8.25``, ``12,000``             `significant`
=====================  ===========================================  ====================================

A value that is missing is ``n/a``. What Slurm reads back (``--time=06:00:00``, ``--mem=23G``) is not written
here but in `forewarn.job.units`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, tzinfo
from zoneinfo import ZoneInfo

MISSING = "n/a"
TIMESTAMP = "%Y-%m-%d %H:%M:%S"  # for strftime, where whole columns are formatted at once
_NO_LIMIT = 0xFFFFFFFF  # seconds; Slurm's INFINITE, which `forewarn.job.units.UNLIMITED` is too
_SPANS = ((86400 * 365, "year"), (86400, "day"), (3600, "hour"), (60, "minute"))
_PROGRAMS = frozenset({"sbatch", "srun", "env", "scontrol", "sacct", "mpirun"})  # written in lower case
_SIZES = (("PiB", 1 << 50), ("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


def percent(share: float | None) -> str:
    """Format a share in whole percent; only 0 itself is 0%, and only 1 itself is 100%.

    >>> percent(0.314), percent(0.002), percent(0.999), percent(1.0), percent(None)
    ('31%', '<1%', '>99%', '100%', 'n/a')
    """
    if share is None:
        return MISSING
    if 0 < share < 0.005:
        return "<1%"
    if 0.995 <= share < 1:
        return ">99%"
    return f"{100 * share:.0f}%"


def percent_in_table(share: float | None) -> str:
    """Format a share with one decimal, for columns that are compared.

    >>> percent_in_table(0.138), percent_in_table(0.0002), percent_in_table(0.9999), percent_in_table(0.0)
    ('13.8%', '<0.1%', '>99.9%', '0.0%')
    """
    if share is None:
        return MISSING
    if 0 < share < 0.0005:
        return "<0.1%"
    if 0.9995 <= share < 1:
        return ">99.9%"
    return f"{100 * share:.1f}%"


def percent_of_jobs(share: float, jobs: int) -> str:
    """Format a share of some jobs, as in tables.

    >>> percent_of_jobs(0.98, 489), percent_of_jobs(0.9999, 20_000), percent_of_jobs(1.0, 489)
    ('98.0% of 489 jobs', '>99.9% of 20,000 jobs', 'all 489 jobs')
    """
    if share >= 1:
        return f"all {jobs:,} jobs"
    whole = math.floor(share * jobs + 1e-9)  # jobs; rounded down: a share of them is not overstated
    return f"{percent_in_table(whole / jobs)} of {jobs:,} jobs"


def byte_size(amount: float | None) -> str:
    """Format bytes in the unit that keeps the number short.

    >>> byte_size(512 << 30), byte_size(1536 << 20), byte_size(25165824000), byte_size(700), byte_size(None)
    ('512 GiB', '1.5 GiB', '23.4 GiB', '700 bytes', 'n/a')
    """
    if amount is None:
        return MISSING
    for unit, size in _SIZES:
        if amount >= 1.2 * size or (amount >= size and (amount / size).is_integer()):
            return f"{amount / size:,.1f}".removesuffix(".0") + f" {unit}"
    return f"{amount:,.0f} bytes"


def duration(seconds: float | None) -> str:
    """Format a duration to the second as Slurm does, without leading zeros.

    >>> duration(6477), duration(183600), duration(255), duration(0xFFFFFFFF), duration(None)
    ('1:47:57', '2-03:00:00', '0:04:15', 'no limit', 'n/a')
    """
    if seconds is None:
        return MISSING
    if seconds >= _NO_LIMIT:
        return "no limit"
    days, rest = divmod(round(seconds), 86400)
    hours = rest // 3600
    clock = f"{rest % 3600 // 60:02}:{rest % 60:02}"
    return f"{days}-{hours:02}:{clock}" if days else f"{hours}:{clock}"


def time_limit(seconds: float) -> str:
    """Format a time limit with its name.

    >>> time_limit(21600), time_limit(0xFFFFFFFF)
    ('time limit 6:00:00', 'no time limit')
    """
    return "no time limit" if seconds >= _NO_LIMIT else f"time limit {duration(seconds)}"


def rough_duration(seconds: float | None) -> str:
    """Format an age or another span of which only the size matters.

    >>> rough_duration(45), rough_duration(5400), rough_duration(61_200), rough_duration(200_000)
    ('45 seconds', '1.5 hours', '17 hours', '2.3 days')
    """
    if seconds is None:
        return MISSING
    if seconds >= _NO_LIMIT:
        return "no limit"
    for size, unit in _SPANS:
        if seconds >= size:
            return _rough(seconds / size, unit)
    return _rough(round(seconds), "second")


def elapsed(seconds: float | None) -> str:
    """Format how long something took, with tenths of a second where it was short.

    >>> elapsed(0.71), elapsed(0.01), elapsed(42.0), elapsed(203.0), elapsed(None)
    ('0.7 s', '<0.1 s', '42.0 s', '3.4 minutes', 'n/a')
    """
    if seconds is None or seconds >= 60:
        return rough_duration(seconds)
    return "<0.1 s" if seconds < 0.05 else f"{seconds:.1f} s"


def _rough(number: float, unit: str) -> str:
    text = f"{number:.1f}".removesuffix(".0") if number < 10 else f"{number:.0f}"
    return f"{text} {unit}{'' if text == '1' else 's'}"


def timestamp(seconds: float | None, zone: tzinfo | str, *, name_zone: bool = False) -> str:
    """Format a Unix time in a time zone, with the zone's abbreviation on request.

    >>> timestamp(1709829412, "Europe/Berlin"), timestamp(1709829412, "UTC", name_zone=True)
    ('2024-03-07 17:36:52', '2024-03-07 16:36:52 UTC')
    """
    if seconds is None:
        return MISSING
    return _in_zone(seconds, zone).strftime(f"{TIMESTAMP} %Z" if name_zone else TIMESTAMP)


def date(seconds: float | None, zone: tzinfo | str) -> str:
    """Format the day of a Unix time in a time zone.

    >>> date(1709829412, "Europe/Berlin")
    '2024-03-07'
    """
    return MISSING if seconds is None else _in_zone(seconds, zone).strftime("%Y-%m-%d")


def _in_zone(seconds: float, zone: tzinfo | str) -> datetime:
    return datetime.fromtimestamp(seconds, ZoneInfo(zone) if isinstance(zone, str) else zone)


def number(value: float | None) -> str:
    """Format a count, with commas between thousands.

    >>> number(13145), number(None)
    ('13,145', 'n/a')
    """
    return MISSING if value is None else f"{value:,.0f}"


def count(value: float, one: str, many: str | None = None) -> str:
    """Format a count of things, with their name in singular or plural.

    >>> count(1, "job"), count(12000, "job"), count(2, "day of history", "days of history")
    ('1 job', '12,000 jobs', '2 days of history')
    """
    return f"{value:,.0f} {one if round(value) == 1 else many or one + 's'}"


def node_hours(hours: float) -> str:
    """Format a number of node hours.

    >>> node_hours(1234.56), node_hours(2)
    ('1,234.6', '2.0')
    """
    return f"{hours:,.1f}"


def times(ratio: float) -> str:
    """Format a ratio, to stand before what it is a multiple of.

    >>> times(2.0), times(0.5), times(1.04), times(97.0), times(0.7)
    ('2 times', 'half', 'about', '97 times', '70% of')
    """
    if 0.9 <= ratio <= 1.12:
        return "about"
    if 0.45 <= ratio <= 0.55:
        return "half"
    if ratio < 0.9:
        return f"{percent(ratio)} of"
    text = f"{ratio:.1f}".removesuffix(".0") if ratio < 10 else f"{ratio:,.0f}"
    return f"{text} times"


def measure(value: float | None, digits: int = 3) -> str:
    """Format a statistical measure, such as a ROC-AUC.

    >>> measure(0.75432), measure(-0.25, 2), measure(None)
    ('0.754', '−0.25', 'n/a')
    """
    return MISSING if value is None else f"{value:.{digits}f}".replace("-", "−")


def difference(value: float | None, digits: int = 3) -> str:
    """Format a difference of two measures, with its sign.

    >>> difference(0.05, 2), difference(-0.051, 2), difference(None)
    ('+0.05', '−0.05', 'n/a')
    """
    return MISSING if value is None else f"{value:+.{digits}f}".replace("-", "−")


def interval(bounds: Sequence[float] | None, digits: int = 3, *, signed: bool = False) -> str:
    """Format a confidence interval; nothing where there is none.

    >>> interval([0.692, 0.81]), interval([-0.03, 0.071], 2, signed=True), interval(None)
    ('[0.692, 0.810]', '[−0.03, +0.07]', '')
    """
    if bounds is None:
        return ""
    low, high = (difference(bound, digits) if signed else measure(bound, digits) for bound in bounds)
    return f"[{low}, {high}]"


def significant(value: float | None, digits: int = 4) -> str:
    """Format a number of no particular kind with its first digits, such as a label of an axis.

    >>> significant(0.5), significant(1.0), significant(0.012345), significant(12000.0), significant(999.6, 3)
    ('0.5', '1', '0.01235', '12,000', '1,000')
    """
    if value is None:
        return MISSING
    text = f"{value:.{digits}g}"
    text = f"{value:,.0f}" if abs(float(text)) >= 1000 else text
    return f"−{text[1:]}" if text.startswith("-") else text


def sentence(text: str) -> str:
    """Begin a sentence with a capital letter; a program or file name at its beginning stays as it is.

    >>> sentence("this job cannot run"), sentence("needs.py imports numpy"), sentence("sbatch refuses it")
    ('This job cannot run', 'needs.py imports numpy', 'sbatch refuses it')
    """
    first = text.split(" ", 1)[0].rstrip(",.;:")
    is_word = first.replace("-", "").isalpha() and first not in _PROGRAMS
    return text[:1].upper() + text[1:] if is_word else text


def full_sentence(text: str) -> str:
    """Begin a sentence with a capital letter and end it with a full stop, unless it has an end.

    >>> full_sentence("this job cannot run"), full_sentence("do the clocks agree?")
    ('This job cannot run.', 'Do the clocks agree?')
    """
    return sentence(text) + ("" if text.endswith((".", "?", "!")) else ".")
