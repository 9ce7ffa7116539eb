"""Readers of values that jobs of the controller and of the database share: ids, state, exit code, memory."""

from __future__ import annotations

import re

from forewarn.job.units import JobId
from forewarn.sources.slurm.record_values import MB, FieldReader, RawRecord, as_number, at, number, text

ID_FIELDS = (
    *("job_id", "raw_id", "array_job_id", "array_task_id", "array_tasks", "het_job_id", "het_offset"),
)
# Slurm's base states; a list of states may add flags to one of them (COMPLETING, REQUEUED …).
_BASE_STATES = frozenset(
    {"PENDING", "RUNNING", "SUSPENDED", "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL"}
    | {"PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY"}
)


def ids(
    job_id: str, *, array_id: str, task_id: str, waiting: str, most: str, het_id: str, offset: str
) -> FieldReader:
    """Build a reader of `ID_FIELDS`: the id as people write it, and its parts."""
    raw, leader_id, offset_of = number(job_id), number(het_id, none=0), number(offset)
    parent_id, task, limit_of = number(array_id, none=0), number(task_id), number(most, none=0)
    waiting_of = text(waiting)

    def read(record: RawRecord) -> tuple[str | int | None, ...]:
        plain = raw(record)
        if plain is None:
            raise ValueError("missing")
        if (leader := leader_id(record)) is not None:
            place = offset_of(record) or 0
            return JobId(leader, offset=place).job, plain, None, None, None, leader, place
        if (parent := parent_id(record)) is None:
            return str(plain), plain, None, None, None, None, None
        if (pending_tasks := waiting_of(record)) is not None:
            tasks = task_list(pending_tasks)
            limit = limit_of(record)
            if limit is not None and "%" not in tasks:
                tasks = f"{tasks}%{limit}"
            return JobId(parent, tasks=tasks).job, plain, parent, None, tasks, None, None
        index = task(record)
        return JobId(parent, task=index).job, plain, parent, index, None, None, None

    return read


def task_list(tasks: str) -> str:
    """Write the tasks of an array as people do; accounting has one bit for each task that never started.

    >>> task_list("0x3"), task_list("0x1d%2"), task_list("0-8:2%4")
    ('0-1', '0,2-4%2', '0-8:2%4')
    """
    mask, percent, most = tasks.partition("%")
    if not mask.startswith("0x"):
        return tasks
    bits = f"{int(mask, 16):b}"[::-1]
    spans = [(found.start(), found.end() - 1) for found in re.finditer("1+", bits)]
    listed = ",".join(f"{first}-{last}" if last > first else f"{first}" for first, last in spans)
    return f"{listed}{percent}{most}"


def state(path: str) -> FieldReader:
    """Build a reader of one state: a text, or the base state of a list."""
    place = at(path)

    def read(record: RawRecord) -> str | None:
        value = place(record)
        if isinstance(value, list):
            value = next((one for one in value if one in _BASE_STATES), value[0] if value else None)
        if value and not isinstance(value, str):
            raise ValueError(f"not a state: {value!r:.80}")
        return value or None

    return read


def exit_pair(code: int, signal: int) -> tuple[int, int]:
    """Check an exit code, which is a byte, and a signal, which is seven bits."""
    if not (0 <= code <= 255 and 0 <= signal <= 127):
        raise ValueError(f"not an exit code and a signal: {code}:{signal}")
    return code, signal


def exit_status(path: str) -> FieldReader:
    """Build a reader of exit code and signal, 0 where there is none, as sacct writes them: `1:0`, `0:9`.

    >>> read = exit_status("exit_code")
    >>> read({"exit_code": 256}), read({"exit_code": 139})
    ((1, 0), (0, 11))
    >>> read({"exit_code": {"status": ["SIGNALED"], "return_code": {"set": False}, "signal": {"id": 9}}})
    (0, 9)
    """
    place = at(path)

    def read(record: RawRecord) -> tuple[int | None, int | None]:
        value = place(record)
        if isinstance(value, dict) and "number" not in value:
            if "signal" not in value:
                # slurmdb up to v0.0.38 has SUCCESS and 0 for every process that exited by itself, so the
                # signal is known (none) and the code is not.
                return None, 0
            signal = value["signal"] or {}
            signal_id = as_number(signal.get("id", signal.get("signal_id")))
            return exit_pair(int(as_number(value.get("return_code")) or 0), int(signal_id or 0))
        status = as_number(value)
        if status is None:
            return None, None
        # The status of wait(2): the code in the second byte, the signal in the low seven bits.
        return int(status) >> 8 & 0xFF, int(status) & 0x7F

    return read


def memory(per_node: str, per_cpu: str) -> FieldReader:
    """Build a reader of the requested memory, and what it is per."""
    node, cpu = number(per_node, scale=MB), number(per_cpu, scale=MB)

    def read(record: RawRecord) -> tuple[int | None, str | None]:
        for per, amount in (("cpu", cpu(record)), ("node", node(record))):
            if amount is not None:
                return amount, per
        return None, None

    return read
