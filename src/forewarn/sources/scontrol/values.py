"""Readers of one value of a scontrol record: a value of ours, or None where it is not set."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from forewarn.job.units import ABSENT, NO_LIMIT, parse_duration, parse_memory
from forewarn.sources.slurm.job_values import exit_pair
from forewarn.sources.slurm.record_values import Reader, Record, bounded
from forewarn.sources.slurm.tres import NOTHING, TresCounts, gpus_in_gres, memory_asked, resources
from forewarn.sources.slurmrestd.slurm_jobs import dependency_as_submitted


def value_of(record: Record, key: str) -> str | None:
    """The text of a key, None where it says that there is no value."""
    value: str = record.get(key) or ""
    return None if value.upper() in ABSENT else value


def text(key: str) -> Reader:
    """The text as it is."""
    return lambda record: value_of(record, key)


def name(key: str) -> Reader:
    """``alice(2002)`` without the number."""

    def read(record: Record) -> str | None:
        value = value_of(record, key)
        return None if value is None else re.sub(r"\(\d+\)$", "", value)

    return read


def number(key: str) -> Reader:
    """A count; of ``1-4`` (a pending job's nodes) the least."""

    def read(record: Record) -> int | None:
        value = value_of(record, key)
        if value is None or value.upper() in NO_LIMIT:
            return None
        match = re.fullmatch(r"(\d+)(?:-\d+)?", value)
        if match is None:
            raise ValueError(f"{key} is not a number: {value!r}")
        return bounded(int(match[1]))

    return read


def decimal(key: str) -> Reader:
    """A number with decimals."""
    return lambda record: None if (value := value_of(record, key)) is None else float(value)


def duration(key: str) -> Reader:
    """Seconds."""
    return lambda record: parse_duration(record.get(key, ""))


def size(key: str) -> Reader:
    """Bytes, of a number of megabytes."""

    def read(record: Record) -> int | None:
        found = parse_memory(record.get(key, ""))
        return None if found is None else found.bytes

    return read


def memory_by(prefix: str) -> Reader:
    """An amount, and what it is counted by, of ``MinMemoryNode`` or ``MinMemoryCPU``."""

    def read(record: Record) -> tuple[int | None, str | None]:
        for ending, per in (("Node", "node"), ("CPU", "cpu")):
            value = value_of(record, prefix + ending)
            if value is not None and value.upper() not in NO_LIMIT:
                found = parse_memory(value)
                return (found.bytes, per) if found else (None, None)
        return None, None

    return read


def exit_status(key: str) -> Reader:
    """Exit code and signal."""

    def read(record: Record) -> tuple[int | None, int | None]:
        value = value_of(record, key)
        if value is None:
            return None, None
        match = re.fullmatch(r"([0-9]+):([0-9]+)", value)
        if match is None:
            raise ValueError(f"not an exit code and a signal: {value!r}")
        return exit_pair(int(match[1]), int(match[2]))

    return read


def time(key: str, zone: str) -> Reader:
    """Unix seconds of a time on the cluster's clock."""

    def read(record: Record) -> int | None:
        value = value_of(record, key)
        return None if value is None else _moment(value, ZoneInfo(zone))

    return read


def _moment(value: str, zone: ZoneInfo) -> int:
    if value.isdecimal():  # SLURM_TIME_FORMAT=%s
        return bounded(int(value))
    try:
        clock = datetime.fromisoformat(value)
    except ValueError:
        raise ValueError(f"not a time: {value!r}") from None
    if clock.tzinfo is None:
        clock = clock.replace(tzinfo=zone)
        if clock.astimezone(UTC).astimezone(zone).replace(tzinfo=None) != clock.replace(tzinfo=None):
            raise ValueError(f"no such time in {zone.key}: {value!r}; is that the cluster's zone?")
    return int(clock.timestamp())


# --- of jobs -------------------------------------------------------------------------------------


def job_id(record: Record) -> str | None:
    """As people write it: the array's number and the task, the het job's and the offset."""
    if (array := value_of(record, "ArrayJobId")) is not None:
        task = record.get("ArrayTaskId", "")
        return f"{array}_{task}" if task.isdigit() else f"{array}_[{task.strip('[]')}]"
    if (het := value_of(record, "HetJobId")) is not None:
        return f"{het}+{record.get('HetJobOffset', '0')}"
    return value_of(record, "JobId")


def array_task(record: Record) -> tuple[int | None, str | None]:
    """The number of a task, or the tasks of an array that has not been split."""
    task = value_of(record, "ArrayTaskId")
    if task is None:
        return None, None
    return (bounded(int(task)), None) if task.isdecimal() else (None, task.strip("[]"))


def dependency(record: Record) -> str | None:
    """As it was asked for."""
    return dependency_as_submitted(value_of(record, "Dependency"))


def job_reason(record: Record) -> str | None:
    """Slurm's word for it: of ``RaisedSignal:11(Segmentation_fault)`` the first, as slurmrestd tells it."""
    value = value_of(record, "Reason")
    return None if value is None else value.partition(":")[0]


def asked(record: Record) -> TresCounts:
    """What was asked for; up to 22.05 TRES tells that only of a job that has no nodes yet."""
    if "ReqTRES" in record:
        return _resources("ReqTRES", record)
    return NOTHING if value_of(record, "NodeList") else _resources("TRES", record)


def given(record: Record) -> TresCounts:
    """What was given to a job that has nodes."""
    if not value_of(record, "NodeList"):
        return NOTHING
    return _resources("AllocTRES" if "AllocTRES" in record else "TRES", record)


def _resources(key: str, record: Record) -> TresCounts:
    found: TresCounts = resources(key)(record) if value_of(record, key) else NOTHING
    return found


def nodes_asked(record: Record) -> int | None:
    """Of a running job NumNodes is what it got, which is what it asked for unless it gave a range."""
    count: int | None = asked(record).nodes or number("NumNodes")(record)
    return count


def cpus_asked(record: Record) -> int | None:
    """Where no TRES tells it: tasks times CPUs per task, since NumCPUs is what the job got."""
    if (count := asked(record).cpus) is not None:
        return count
    tasks, each = number("NumTasks")(record), value_of(record, "CPUs/Task")
    if tasks is None or each is None or not each.isdecimal():
        return None
    return bounded(tasks * int(each))


def memory_asked_for(record: Record) -> tuple[int | None, str | None]:
    """An amount, and what it is counted by. Of `--mem=0` up to 22.05 what was given tells how much."""
    whole = asked(record)
    return memory_asked(memory_by("MinMemory")(record), given(record) if whole is NOTHING else whole)


def defaulted_fields(record: Record) -> str | None:
    """Fields that the user did not ask for, as far as it is told."""
    return "time_limit" if record.get("TimeLimit") == "Partition_Limit" else None


# --- of nodes and partitions ---------------------------------------------------------------------


def node_state(record: Record) -> str | None:
    """Without the sign behind it: ``DOWN*`` does not respond."""
    value = value_of(record, "State")
    return None if value is None else value.upper().rstrip("*~#!%$@^-")


def node_gpus(record: Record) -> int | None:
    """How many GPUs the node's GRES counts."""
    gres = value_of(record, "Gres")
    return gpus_in_gres(gres) if gres else None


_REASON = re.compile(r"(?P<why>.*?)\s*(?:\[[^@\]]*@(?P<at>[^\]]+)\])?", re.DOTALL)


def node_reason(zone: str) -> Reader:
    """Why a node is out of work and since when: ``bad disk [root@2024-01-01T00:00:00]``."""

    def read(record: Record) -> tuple[str | None, int | None]:
        match = _REASON.fullmatch(value_of(record, "Reason") or "")
        if match is None or not match["why"]:
            return None, None
        return match["why"], _moment(match["at"], ZoneInfo(zone)) if match["at"] else None

    return read


def is_default(record: Record) -> bool | None:
    """Whether jobs that name no partition go there."""
    value = value_of(record, "Default")
    return None if value is None else value == "YES"
