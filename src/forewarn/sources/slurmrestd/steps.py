"""What the steps of a slurmdb job used, folded into the job."""

from __future__ import annotations

from typing import Any

from forewarn.sources.slurmrestd.values import Record, as_number, bounded


def used_by_steps(record: Record) -> tuple[float | None, ...]:
    """CPU time, memory of the largest task, bytes read, bytes written, joules.

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
        asked, consumed = tres.get("requested") or {}, tres.get("consumed") or {}
        # `requested` is what came in and `consumed` what went out: sacct's TRESUsageIn and -Out. Here
        # memory is in bytes.
        max_memory = max(max_memory, _count(asked.get("max"), "mem", "") or 0)
        if (amount := _count(asked.get("total"), "fs", "disk")) is not None:
            read = (read or 0) + amount
        if (amount := _count(consumed.get("total"), "fs", "disk")) is not None:
            written = (written or 0) + amount
        consumption = (step.get("statistics") or {}).get("energy") or {}
        energy += int(as_number(consumption.get("consumed")) or 0)
    # The database adds up the job's own CPU time only when it has ended (and before 24.11 not at all).
    # No process needs no time, memory or energy: 0 is what stands there when nobody measured.
    amounts = (max_memory or None, read, written, energy or None)
    return max(cpu_time, of_steps) or None, *(None if a is None else bounded(a) for a in amounts)


def _seconds(record: Record) -> float:
    total = (record.get("time") or {}).get("total") or {}
    return int(total.get("seconds") or 0) + int(total.get("microseconds") or 0) / 1e6


def _count(items: list[dict[str, Any]] | None, kind: str, name: str) -> int | None:
    for item in items or ():
        if item["type"] == kind and (item["name"] or "") == name:
            found = as_number(item["count"])
            return None if found is None else int(found)
    return None
