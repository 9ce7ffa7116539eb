"""Requests far beyond what the user usually requests: more often a typing error than intended."""

from __future__ import annotations

from collections.abc import Iterator

from forewarn.assess.assessment import Oddity
from forewarn.assess.codes import OddityCode
from forewarn.assess.oddness.request import NodeRequest
from forewarn.assess.oddness.usual import FEWEST, HIGH, UsualRequest
from forewarn.evidence import Value
from forewarn.job.units import UNLIMITED

TIMES = 100  # least ratio to the user's median


def beyond_usual(request: NodeRequest, usual: UsualRequest) -> Iterator[Oddity]:
    """Yield an oddity for each number that is 100 times the user's median and above their 95th percentile."""
    if usual.jobs < FEWEST:
        return
    unlimited = request.time_limit is not None and request.time_limit >= UNLIMITED
    values_requested = {
        "memory_asked": request.memory_a_node,
        "time_limit": None if unlimited else request.time_limit,
        "nodes_asked": request.nodes,
        "cpus_asked": request.cpus,
    }
    for field, value in values_requested.items():
        if value is None or field not in usual.fields:
            continue
        middle, high = usual.fields[field]
        if value >= TIMES * middle and value > high:
            values: dict[str, Value] = {"what": field, "asked": value, "jobs": usual.jobs}
            values |= {"median": middle, "high": high, "high_share": HIGH}
            yield Oddity(
                rule="far-beyond-usual", code=OddityCode.FAR_BEYOND_USUAL, values=values, field=field
            )
