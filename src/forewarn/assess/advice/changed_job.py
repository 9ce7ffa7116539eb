"""A job with some of its options changed."""

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
    """A changed job, and the nodes that it excludes, which no job record contains."""

    job: Job
    exclude: frozenset[str] = frozenset()


def changed(job: Job, changes: Sequence[Change], exclude: frozenset[str] = frozenset()) -> ChangedJob:
    """Return the record of a job with changed options.

    >>> more = Change(option="mem", before=None, after="4G")
    >>> changed(Job(cluster="c", job_id="1", submit=0), [more]).job.memory_asked >> 30
    4
    """
    values: dict[str, Any] = {}
    for change in changes:
        if change.option in _PER and (memory := parse_memory(change.after)):
            values |= {"memory_asked": memory.bytes, "memory_per": _PER[change.option]}
        elif change.option == "time":
            values["time_limit"] = parse_duration(change.after)
        elif change.option == "nodes":
            values["nodes_asked"] = int(change.after)
        elif change.option == "partition":
            values["partition"] = change.after
        elif change.option == "exclude":
            exclude |= frozenset(expand_nodes(change.after))
    left_open = [name for name in (job.defaulted or "").split(",") if name and name not in values]
    defaulted = ",".join(left_open) if job.defaulted is not None else None
    return ChangedJob(replace(job, **values, defaulted=defaulted), exclude)
