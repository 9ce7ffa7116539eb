"""The fields of a job's record, each with the members of a jobcomp document that hold it.

Facts from Slurm's source, checked on messages of 24.11 and 26.05 and on documents of 2023:

- times are UTC without a zone (a site's own copy may have added the offset); "Unknown" is missing;
- `time_limit` is in seconds, and omitted only where the job has no limit;
- `ntasks` is 0 where none was requested; `total_cpus` is what was allocated;
- energy that was not measured is 18446744073709551614 in `tres_alloc_raw`.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from types import MappingProxyType

from forewarn.job.sbatch.script_facts import script_facts
from forewarn.job.units import UNLIMITED
from forewarn.sources.scontrol.values import exit_status
from forewarn.sources.slurm import job_values
from forewarn.sources.slurm.job_values import ID_FIELDS, ids
from forewarn.sources.slurm.record_values import (
    FieldReader,
    Fields,
    RawRecord,
    as_number,
    bounded,
    named,
    number,
    text,
)
from forewarn.sources.slurm.tres import NOTHING, memory_asked, resources
from forewarn.sources.slurmrestd.slurm_jobs import dependency_as_submitted

_ENERGY = re.compile(r"(?:^|,)3=(\d+)")  # Slurm's fixed number of this resource
_requested, _allocated = resources("tres_req"), resources("tres_alloc")


def time(key: str) -> FieldReader:
    """Build a reader of a time as Unix seconds; it is UTC unless it has an offset."""

    def read(record: RawRecord) -> int | None:
        value = record.get(key)
        if value in (None, "", "Unknown"):
            return None
        try:
            clock = datetime.fromisoformat(value)
        except (ValueError, TypeError):
            raise ValueError(f"{key} is not a time: {value!r:.80}") from None
        return int((clock if clock.tzinfo else clock.replace(tzinfo=UTC)).timestamp())

    return read


_start, _end, _elapsed = time("@start"), time("@end"), number("elapsed")
_word = job_values.state("state")
_node_list, _node_count, _cpu_count = (
    text("nodes"),
    number("total_nodes", none=0),
    number("total_cpus", none=0),
)
_tasks, _cpus_per_task = number("ntasks", none=0), number("cpus_per_task", none=0)
_limit, _allocated_raw = number("time_limit"), text("tres_alloc_raw")
_script, _dependency = text("script"), text("orig_dependency")


def state(record: RawRecord) -> str | None:
    """Read the state of the run that the document is about.

    A document of a start (jobcomp/kafka since 25.05) has none. One of an end has PENDING where the job was
    requeued: accounting calls that run REQUEUED.
    """
    word: str | None = _word(record)
    if _end(record) is None:
        return word or "RUNNING"
    return "REQUEUED" if word == "PENDING" else word


def start(record: RawRecord) -> int | None:
    """Compute the start: `@start` of a resized job is the time of the resize, which the run time corrects."""
    start_time: int | None = _start(record)
    end_time, elapsed = _end(record), _elapsed(record)
    if start_time is None or end_time is None or elapsed is None or record.get("state") == "RESIZING":
        return start_time
    return min(start_time, int(end_time - elapsed))


def _had_nodes(record: RawRecord) -> bool:
    """Check whether this run had nodes: one cancelled while pending after a requeue names its old ones."""
    return bool(_node_count(record) if "total_nodes" in record else _node_list(record))


def nodes(record: RawRecord) -> str | None:
    """Read the nodes of this run."""
    return _node_list(record) if _had_nodes(record) else None


def requested(record: RawRecord) -> tuple[str | int | None, ...]:
    """Read requested TRES, nodes, CPUs and GPUs; CPUs by tasks, where no TRES has them."""
    whole = _requested(record)
    cpus = whole.cpus
    if cpus is None:
        tasks, each = _tasks(record), _cpus_per_task(record)
        cpus = bounded(tasks * each) if tasks and each else None
    return whole.text, whole.nodes, cpus, whole.gpus


def allocated(record: RawRecord) -> tuple[str | int | None, ...]:
    """Read TRES, nodes, CPUs, memory and GPUs allocated to this run."""
    if not _had_nodes(record):
        return tuple(NOTHING)
    whole = _allocated(record)
    count, cpus = whole.nodes or _node_count(record), whole.cpus or _cpu_count(record)
    return whole.text, count, cpus, whole.memory, whole.gpus


def time_limit(record: RawRecord) -> int | None:
    """Read the time limit in seconds."""
    limit: int | None = _limit(record)
    return UNLIMITED if limit is None else limit


def energy(record: RawRecord) -> int | None:
    """Read the energy in joules; 0 and Slurm's "not set" mean that it was not measured."""
    found = _ENERGY.search(_allocated_raw(record) or "")
    joules = as_number(found[1]) if found else None
    return None if not joules or joules == UNLIMITED else bounded(joules)


def script(record: RawRecord) -> tuple[str | None, ...]:
    """Read the facts of the script, where the site includes it."""
    body = _script(record)
    if body is None:
        return (None,) * 5
    facts = script_facts(body)
    return facts.hash, facts.language, facts.modules, facts.launcher, facts.environment


# Fields with a leading underscore are not in the record.
JOBCOMP_JOB: Fields = MappingProxyType(
    {
        "cluster": text("cluster"),
        ID_FIELDS: ids(
            "jobid",
            array_id="array_job_id",
            task_id="array_task_id",
            waiting="array_task_str",
            most="array_max_tasks",
            het_id="het_job_id",
            offset="het_job_offset",
        ),
        "submit": time("@submit"),
        "user": named("username", "user_id"),
        "group": named("groupname", "group_id"),
        "account": text("account"),
        "name": text("job_name"),
        "work_dir": text("work_dir"),
        (
            "script_hash",
            "script_language",
            "script_modules",
            "script_launcher",
            "script_environment",
        ): script,
        "dependency": lambda record: dependency_as_submitted(_dependency(record)),
        "partition": text("partition"),
        "qos": text("qos"),
        "reservation": text("reservation_name"),
        "constraint": text("features"),
        "nodes": nodes,
        "tasks_asked": _tasks,
        ("tres_asked", "nodes_asked", "cpus_asked", "gpus_asked"): requested,
        ("memory_asked", "memory_per"): lambda record: memory_asked((None, None), _requested(record)),
        "time_limit": time_limit,
        "priority": number("priority"),
        ("tres_given", "nodes_given", "cpus_given", "memory_given", "gpus_given"): allocated,
        "eligible": time("@eligible"),
        "start": start,
        "end": _end,
        "suspended": lambda _: None,  # not recorded
        "state": state,
        ("exit_code", "exit_signal"): exit_status("exit_code"),
        ("derived_exit_code", "_derived_signal"): exit_status("derived_ec"),
        "energy": energy,
    }
)
