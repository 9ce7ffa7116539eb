"""A request far beyond what its user ever asks for: a slip of the keyboard, more often than a plan."""

from __future__ import annotations

from collections.abc import Iterator

from forewarn.assess.assessment import Oddity
from forewarn.assess.oddness.request import Request
from forewarn.assess.oddness.usual import FEWEST, Usual
from forewarn.assess.oddness.words import bytes_in_words, count_in_words, time_in_words
from forewarn.job.units import UNLIMITED

TIMES = 100  # this user's usual


def beyond_usual(request: Request, usual: Usual) -> Iterator[Oddity]:
    """One oddity for each number that is 100 times the median of the user's, and beyond 95 % of them."""
    if usual.jobs < FEWEST:
        return
    unlimited = request.time_limit is not None and request.time_limit >= UNLIMITED
    asked = (
        ("memory_asked", request.memory_a_node, lambda n: f"{bytes_in_words(n)} a node"),
        ("time_limit", None if unlimited else request.time_limit, _time),
        ("nodes_asked", request.nodes, lambda n: count_in_words(n, "node")),
        ("cpus_asked", request.cpus, lambda n: count_in_words(n, "CPU")),
    )
    for field, value, in_words in asked:
        if value is None or field not in usual.fields:
            continue
        middle, high = usual.fields[field]
        if value >= TIMES * middle and value > high:
            times = f"{value / middle:,.0f} times"
            yield Oddity(
                rule="far-beyond-usual",
                what=f"asks for {in_words(value)}, {times} the median of this user's last "
                f"{usual.jobs:,} jobs ({in_words(middle)}); 95 % of them stayed within {in_words(high)}",
                field=field,
            )


def _time(seconds: float) -> str:
    return f"a time limit of {time_in_words(seconds)}"
