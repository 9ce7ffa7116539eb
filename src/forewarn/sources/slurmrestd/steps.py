"""Resources used by the steps of a slurmdb job, and the outcome that they show, for the job's record."""

from __future__ import annotations

from typing import Any

from forewarn.job.step_outcomes import EXACT_STATES, StepEnd, outcome_of_steps
from forewarn.sources.slurm.job_values import state
from forewarn.sources.slurm.record_values import RawRecord, as_number, bounded, moment, text

_state, _start, _end = state("state"), moment("time.start"), moment("time.end")
_id = text("step.id", "step.name")


def used_by_steps(record: RawRecord) -> tuple[float | None, ...]:
    """Sum CPU time, memory of the largest task, bytes read, bytes written and joules.

    >>> mem, disk = {"type": "mem", "name": "", "count": 7}, {"type": "fs", "name": "disk", "count": 5}
    >>> step = {"tres": {"requested": {"max": [mem], "total": [disk]}}, "time": {"total": {"seconds": 2}}}
    >>> used_by_steps({"steps": [step, step]})
    (4.0, 7, 10, None, None)
    """
    cpu_time, max_memory, energy = _seconds(record), 0, 0
    read: int | None = None
    written: int | None = None
    of_steps = 0.0
    for step in record.get("steps") or ():
        of_steps += _seconds(step)
        tres = step.get("tres") or {}
        incoming, outgoing = tres.get("requested") or {}, tres.get("consumed") or {}
        # `requested` is input and `consumed` output: sacct's TRESUsageIn and TRESUsageOut. Memory is in bytes
        # here.
        max_memory = max(max_memory, _count(incoming.get("max"), "mem", "") or 0)
        if (amount := _count(incoming.get("total"), "fs", "disk")) is not None:
            read = (read or 0) + amount
        if (amount := _count(outgoing.get("total"), "fs", "disk")) is not None:
            written = (written or 0) + amount
        consumption = (step.get("statistics") or {}).get("energy") or {}
        energy += int(as_number(consumption.get("consumed")) or 0)
    # The database sums the job's own CPU time only when it has ended (and before 24.11 not at all). Every
    # process uses some time, memory and energy: 0 means that it was not measured.
    amounts = (max_memory or None, read, written, energy or None)
    return max(cpu_time, of_steps) or None, *(None if a is None else bounded(a) for a in amounts)


def outcome_by_steps(record: RawRecord) -> str | None:
    """Find the outcome of a job that Slurm calls failed, where its steps show it.

    >>> step = {"step": {"id": "7.0"}, "state": ["OUT_OF_MEMORY"], "time": {"start": 1, "end": 2}}
    >>> outcome_by_steps({"steps": [step]}), outcome_by_steps({"steps": []})
    ('out_of_memory', None)
    """
    steps = record.get("steps") or ()
    if not any(_state(step) in EXACT_STATES for step in steps):
        return None
    found = outcome_of_steps(
        [
            StepEnd((_id(step) or "").rpartition(".")[2], _state(step), _start(step), _end(step))
            for step in steps
        ]
    )
    return None if found is None else str(found)


def _seconds(record: RawRecord) -> float:
    total = (record.get("time") or {}).get("total") or {}
    return int(total.get("seconds") or 0) + int(total.get("microseconds") or 0) / 1e6


def _count(items: list[dict[str, Any]] | None, resource: str, name: str) -> int | None:
    for item in items or ():
        if item["type"] == resource and (item["name"] or "") == name:
            found = as_number(item["count"])
            return None if found is None else int(found)
    return None
