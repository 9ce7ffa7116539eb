"""A job as it would be with some options set otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from forewarn.assess.assessment import Change
from forewarn.job.record import Job
from forewarn.job.units import expand_nodes, parse_duration, parse_memory

_PER = {"mem": "node", "mem-per-cpu": "cpu", "mem-per-gpu": "gpu"}


@dataclass(frozen=True, slots=True)
class ChangedJob:
    """A job, and the nodes that it keeps off, which no record of a job tells."""

    job: Job
    exclude: frozenset[str] = frozenset()


def changed(job: Job, changes: Sequence[Change], exclude: frozenset[str] = frozenset()) -> ChangedJob:
    """The record of a job that asks otherwise.

    >>> more = Change(option="mem", before=None, after="4G")
    >>> changed(Job(cluster="c", job_id="1", submit=0), [more]).job.memory_asked >> 30
    4
    """
    set_to: dict[str, Any] = {}
    for change in changes:
        if change.option in _PER and (memory := parse_memory(change.after)):
            set_to |= {"memory_asked": memory.bytes, "memory_per": _PER[change.option]}
        elif change.option == "time":
            set_to["time_limit"] = parse_duration(change.after)
        elif change.option == "nodes":
            set_to["nodes_asked"] = int(change.after)
        elif change.option == "partition":
            set_to["partition"] = change.after
        elif change.option == "exclude":
            exclude |= frozenset(expand_nodes(change.after))
    asked = frozenset(set_to)
    left_open = [name for name in (job.defaulted or "").split(",") if name and name not in asked]
    defaulted = ",".join(left_open) if job.defaulted is not None else None
    return ChangedJob(replace(job, **set_to, defaulted=defaulted), exclude)
