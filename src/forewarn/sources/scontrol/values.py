"""Readers of one value of a scontrol record: its value, or None where it is not set."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from forewarn.job.units import ABSENT, NO_LIMIT, parse_duration, parse_memory
from forewarn.sources.slurm.job_values import exit_pair
from forewarn.sources.slurm.record_values import FieldReader, RawRecord, bounded
from forewarn.sources.slurm.tres import NOTHING, TresCounts, gpus_in_gres, memory_asked, resources
from forewarn.sources.slurmrestd.slurm_jobs import dependency_as_submitted


def value_of(record: RawRecord, key: str) -> str | None:
    """Return the text of a key; None where it is missing, or one of Slurm's words for a missing value."""
    value: str = record.get(key) or ""
    return None if value.upper() in ABSENT else value


def text(key: str) -> FieldReader:
    """Build a reader of a text as it is."""
    return lambda record: value_of(record, key)


def name(key: str) -> FieldReader:
    """Build a reader of a name: ``alice(2002)`` without the number."""

    def read(record: RawRecord) -> str | None:
        value = value_of(record, key)
        return None if value is None else re.sub(r"\(\d+\)$", "", value)

    return read


def number(key: str) -> FieldReader:
    """Build a reader of a count; of ``1-4`` (a pending job's nodes) the smallest."""

    def read(record: RawRecord) -> int | None:
        value = value_of(record, key)
        if value is None or value.upper() in NO_LIMIT:
            return None
        match = re.fullmatch(r"(\d+)(?:-\d+)?", value)
        if match is None:
            raise ValueError(f"{key} is not a number: {value!r}")
        return bounded(int(match[1]))

    return read


def decimal(key: str) -> FieldReader:
    """Build a reader of a number with decimals."""
    return lambda record: None if (value := value_of(record, key)) is None else float(value)


def duration(key: str) -> FieldReader:
    """Build a reader of a duration in seconds."""
    return lambda record: parse_duration(record.get(key, ""))


def size(key: str) -> FieldReader:
    """Build a reader of an amount of memory in bytes, from megabytes."""

    def read(record: RawRecord) -> int | None:
        found = parse_memory(record.get(key, ""))
        return None if found is None else found.bytes

    return read


def memory_by(prefix: str) -> FieldReader:
    """Build a reader of memory, and what it is per, from ``MinMemoryNode`` or ``MinMemoryCPU``."""

    def read(record: RawRecord) -> tuple[int | None, str | None]:
        for ending, per in (("Node", "node"), ("CPU", "cpu")):
            value = value_of(record, prefix + ending)
            if value is not None and value.upper() not in NO_LIMIT:
                found = parse_memory(value)
                return (found.bytes, per) if found else (None, None)
        return None, None

    return read


def exit_status(key: str) -> FieldReader:
    """Build a reader of exit code and signal."""

    def read(record: RawRecord) -> tuple[int | None, int | None]:
        value = value_of(record, key)
        if value is None:
            return None, None
        match = re.fullmatch(r"([0-9]+):([0-9]+)", value)
        if match is None:
            raise ValueError(f"not an exit code and a signal: {value!r}")
        return exit_pair(int(match[1]), int(match[2]))

    return read


def time(key: str, zone: str) -> FieldReader:
    """Build a reader of a local time of the cluster, as Unix seconds."""

    def read(record: RawRecord) -> int | None:
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


# --- jobs ----------------------------------------------------------------------------------------


def job_id(record: RawRecord) -> str | None:
    """Build the id as people write it: array id and task, or het job id and offset."""
    if (array := value_of(record, "ArrayJobId")) is not None:
        task = record.get("ArrayTaskId", "")
        return f"{array}_{task}" if task.isdigit() else f"{array}_[{task.strip('[]')}]"
    if (het := value_of(record, "HetJobId")) is not None:
        return f"{het}+{record.get('HetJobOffset', '0')}"
    return value_of(record, "JobId")


def array_task(record: RawRecord) -> tuple[int | None, str | None]:
    """Read the number of a task, or the tasks of an array that has not been split."""
    task = value_of(record, "ArrayTaskId")
    if task is None:
        return None, None
    return (bounded(int(task)), None) if task.isdecimal() else (None, task.strip("[]"))


def dependency(record: RawRecord) -> str | None:
    """Read the dependency as it was submitted."""
    return dependency_as_submitted(value_of(record, "Dependency"))


def job_reason(record: RawRecord) -> str | None:
    """Read the reason: of ``RaisedSignal:11(Segmentation_fault)`` the first word, as slurmrestd shows it."""
    value = value_of(record, "Reason")
    return None if value is None else value.partition(":")[0]


def requested_resources(record: RawRecord) -> TresCounts:
    """Read the requested resources; up to 22.05 TRES has them only while a job has no nodes."""
    if "ReqTRES" in record:
        return _resources("ReqTRES", record)
    return NOTHING if value_of(record, "NodeList") else _resources("TRES", record)


def allocated_resources(record: RawRecord) -> TresCounts:
    """Read the resources allocated to a job that has nodes."""
    if not value_of(record, "NodeList"):
        return NOTHING
    return _resources("AllocTRES" if "AllocTRES" in record else "TRES", record)


def _resources(key: str, record: RawRecord) -> TresCounts:
    found: TresCounts = resources(key)(record) if value_of(record, key) else NOTHING
    return found


def nodes_asked(record: RawRecord) -> int | None:
    """Read the requested nodes; a running job's NumNodes is what it got: the request, unless a range."""
    count: int | None = requested_resources(record).nodes or number("NumNodes")(record)
    return count


def cpus_asked(record: RawRecord) -> int | None:
    """Read the requested CPUs; without TRES, tasks times CPUs per task, since NumCPUs is what the job got."""
    if (count := requested_resources(record).cpus) is not None:
        return count
    tasks, each = number("NumTasks")(record), value_of(record, "CPUs/Task")
    if tasks is None or each is None or not each.isdecimal():
        return None
    return bounded(tasks * int(each))


def requested_memory(record: RawRecord) -> tuple[int | None, str | None]:
    """Read the requested memory and what it is per; for `--mem=0` up to 22.05, what was allocated."""
    whole = requested_resources(record)
    return memory_asked(
        memory_by("MinMemory")(record), allocated_resources(record) if whole is NOTHING else whole
    )


def defaulted_fields(record: RawRecord) -> str | None:
    """List the fields that the user left to the site, as far as scontrol shows it."""
    return "time_limit" if record.get("TimeLimit") == "Partition_Limit" else None


# --- nodes and partitions ------------------------------------------------------------------------


def node_state(record: RawRecord) -> str | None:
    """Read the state without the sign after it: ``DOWN*`` does not respond."""
    value = value_of(record, "State")
    return None if value is None else value.upper().rstrip("*~#!%$@^-")


def node_gpus(record: RawRecord) -> int | None:
    """Count the GPUs in the node's GRES."""
    gres = value_of(record, "Gres")
    return gpus_in_gres(gres) if gres else None


_REASON = re.compile(r"(?P<why>.*?)\s*(?:\[[^@\]]*@(?P<at>[^\]]+)\])?", re.DOTALL)


def node_reason(zone: str) -> FieldReader:
    """Build a reader of a node's reason and its time: ``bad disk [root@2024-01-01T00:00:00]``."""

    def read(record: RawRecord) -> tuple[str | None, int | None]:
        match = _REASON.fullmatch(value_of(record, "Reason") or "")
        if match is None or not match["why"]:
            return None, None
        return match["why"], _moment(match["at"], ZoneInfo(zone)) if match["at"] else None

    return read


def is_default(record: RawRecord) -> bool | None:
    """Check whether the partition is the default one."""
    value = value_of(record, "Default")
    return None if value is None else value == "YES"
