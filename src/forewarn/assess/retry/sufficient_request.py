"""Find the request that suffices after a kill for memory or a time-out, in its partition or in another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from forewarn.assess.advice.situation import can_run_in, most_memory
from forewarn.assess.codes import RetryCode
from forewarn.assess.oddness.partitions import PartitionNodes, limit, places
from forewarn.assess.retry.raised_requests import (
    STEP,
    RaisedRequest,
    counted_memory,
    measured_memory,
    memory_option,
    raised_memory,
    raised_time,
)
from forewarn.assess.retry.situation import RetrySituation, is_plain_name
from forewarn.assess.retry.verdict import RaiseBasis
from forewarn.evidence import Statement
from forewarn.job.record import Job
from forewarn.job.units import format_duration


@dataclass(frozen=True, slots=True)
class SufficientRequest:
    """The fields of a verdict that change the request, or None and why there are none."""

    because: tuple[Statement, ...]
    values: Mapping[str, Any] | None = None


def more_memory(s: RetrySituation) -> SufficientRequest:
    """Find how much memory to request, and where."""
    factor, needed = s.experience.memory_factor(), s.forecast.memory

    def raised(place: PartitionNodes) -> RaisedRequest | None:
        return raised_memory(s.job, needed, factor, most_memory(s.job, place))

    def changed(new: RaisedRequest) -> Job:
        return replace(s.job, memory_asked=new.new, memory_per="node")

    first = raised(s.place)
    if first is None:
        return SufficientRequest((Statement(RetryCode.MEMORY_UNKNOWN),))
    place, found = _first_sufficient(s, first, needed, raised, changed)
    if found is None:
        about = {"had": first.had, "most": first.new, "needed": needed}
        return SufficientRequest((Statement(RetryCode.NO_MORE_MEMORY, about),))
    memory, per = counted_memory(s.job, found)
    because = Statement(
        RetryCode.MORE_MEMORY,
        {**_raise(found, needed), "used": measured_memory(s.job)},
    )
    return _sufficient(because, place, {"memory": memory, "memory_per": per}, memory_option(memory, per))


def more_time(s: RetrySituation) -> SufficientRequest:
    """Find how much time to request, and where."""
    factor, needed = s.experience.time_factor(), s.forecast.seconds

    def raised(place: PartitionNodes) -> RaisedRequest | None:
        return raised_time(
            s.job, needed, factor, limit(place.partition.time_max) if place.partition else None
        )

    def changed(new: RaisedRequest) -> Job:
        return replace(s.job, time_limit=new.new)

    first = raised(s.place)
    if first is None:
        return SufficientRequest((Statement(RetryCode.TIME_UNKNOWN),))
    place, found = _first_sufficient(s, first, needed, raised, changed)
    if found is None:
        about = {"had": first.had, "most": first.new, "needed": needed}
        return SufficientRequest((Statement(RetryCode.NO_MORE_TIME, about),))
    because = Statement(RetryCode.MORE_TIME, _raise(found, needed))
    option = f"--time={format_duration(found.new)}"
    return _sufficient(because, place, {"time_limit": found.new}, option)


def _first_sufficient(
    s: RetrySituation,
    first: RaisedRequest,
    needed: float | None,
    raised: Callable[[PartitionNodes], RaisedRequest | None],
    changed: Callable[[RaisedRequest], Job],
) -> tuple[PartitionNodes | None, RaisedRequest | None]:
    """Return the request in its own partition, else in another that has enough; the partition if another.

    The most that a partition has is taken only if it is clearly more than before, and not less than a
    forecast says.
    """
    if first.basis is not RaiseBasis.LARGEST:
        return None, first
    for place in _other_places(s):
        found = raised(place)
        if found and found.basis is not RaiseBasis.LARGEST:
            moved = replace(changed(found), partition=place.name)
            if can_run_in(moved, place):
                return place, found
    enough = first.new >= STEP * first.had and (needed is None or needed <= first.new)
    return None, first if enough else None


def _raise(found: RaisedRequest, needed: float | None) -> dict[str, Any]:
    return {"had": found.had, "new": found.new, "basis": str(found.basis), "needed": needed}


def _other_places(s: RetrySituation) -> Iterator[PartitionNodes]:
    for name in sorted(filter(is_plain_name, set(s.may_use()) - {s.place.name})):
        yield from places(replace(s.job, partition=name), s.machine.nodes, s.machine.partitions)


def _sufficient(
    because: Statement, place: PartitionNodes | None, values: Mapping[str, Any], option: str
) -> SufficientRequest:
    if place is None:
        return SufficientRequest((because,), {**values, "options": (option,)})
    moved = Statement(RetryCode.OTHER_PARTITION, {"partition": place.name})
    options = (option, f"--partition={place.name}")
    return SufficientRequest((because, moved), {**values, "partition": place.name, "options": options})
