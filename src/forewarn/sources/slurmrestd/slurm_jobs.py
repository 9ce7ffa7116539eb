"""The fields of the controller's jobs: `/slurm/vX/jobs`, `squeue --json`, `scontrol show job --json`."""

from __future__ import annotations

import re
from types import MappingProxyType

from forewarn.job.sbatch.script_facts import line_facts
from forewarn.sources.slurm.job_values import (
    ID_FIELDS,
    exit_status,
    ids,
    memory,
    state,
)
from forewarn.sources.slurm.record_values import (
    Fields,
    RawRecord,
    as_number,
    bounded,
    minutes,
    moment,
    named,
    number,
    text,
)
from forewarn.sources.slurm.tres import NOTHING, gpus_in_gres, memory_asked, resources

_DEFAULTED = MappingProxyType(
    {
        "USING_DEFAULT_ACCOUNT": "account",
        "USING_DEFAULT_PARTITION": "partition",
        "USING_DEFAULT_QOS": "qos",
    }
)
_MEMORY_SET = frozenset({"EXACT_MEMORY_REQUESTED", "JOB_MEM_SET"})  # the new name, the old one
_FULFILMENT = re.compile(r"\([a-z ]+\)")
_requested, _allocated = resources("tres_req_str"), resources("tres_alloc_str")
_memory = memory("memory_per_node", "memory_per_cpu")


def _requested_values(record: RawRecord) -> tuple[str | int | None, ...]:
    whole = _requested(record)
    return (
        whole.text,
        whole.nodes,
        whole.cpus,
        whole.gpus if whole.gpus is not None else _requested_gpus(record),
    )


def _requested_gpus(record: RawRecord) -> int | None:
    """Count the GPUs in the GRES options: sites that do not account GPUs as TRES have them only there."""
    for key, times in (("tres_per_job", None), ("tres_per_node", "node_count"), ("tres_per_task", "tasks")):
        gres = record.get(key)
        count = gpus_in_gres(gres) if gres else None
        if count is not None:
            return bounded(count * int((as_number(record.get(times)) or 1) if times else 1))
    return None


def _allocated_values(record: RawRecord) -> tuple[str | int | None, ...]:
    whole = _allocated(record)
    gpus = whole.gpus if whole.gpus is not None or whole is NOTHING else _allocated_gpus(record)
    return whole.text, whole.nodes, whole.cpus, whole.memory, gpus


def _allocated_gpus(record: RawRecord) -> int | None:
    """Count the GPUs in one GRES text for each node, present while the job runs."""
    return sum(gpus_in_gres(node) or 0 for node in record.get("gres_detail") or ()) or None


def _defaulted(record: RawRecord) -> str | None:
    """List the fields that the user left to the site, as far as the flags show them."""
    flags = record.get("flags")
    if not isinstance(flags, list):
        return None
    flag_names = {flag.strip() for flag in flags}  # v0.0.36 writes "JOB_CPUS_SET "
    found = [field for flag, field in _DEFAULTED.items() if flag in flag_names]
    if not flag_names & _MEMORY_SET and _memory(record)[0] is not None:
        found.append("memory_asked")
    return ",".join(sorted(found)) or None


def dependency_as_submitted(dependency: str | None) -> str | None:
    """Remove the word in brackets for how far a dependency is fulfilled, which changes later.

    >>> dependency_as_submitted("afterok:10(failed),afterany:11(unfulfilled)")
    'afterok:10,afterany:11'
    """
    return _FULFILMENT.sub("", dependency) or None if dependency else None


def _suspended(record: RawRecord) -> int:
    """Compute the seconds suspended: from start to the last resume, less `pre_sus_time`, which it ran."""
    start, resumed, ran = (as_number(record.get(k)) for k in ("start_time", "suspend_time", "pre_sus_time"))
    return max(0, bounded(resumed - (start or 0) - (ran or 0))) if resumed else 0


def is_slurm_job(record: RawRecord) -> bool:
    """Check whether a job is one of the controller's."""
    return "submit_time" in record


SLURM_JOB: Fields = MappingProxyType(
    {
        "cluster": text("cluster"),
        ID_FIELDS: ids(
            "job_id",
            array_id="array_job_id",
            task_id="array_task_id",
            waiting="array_task_string",
            most="array_max_tasks",
            het_id="het_job_id",
            offset="het_job_offset",
        ),
        "submit": moment("submit_time"),
        "user": named("user_name", "user_id"),
        "group": named("group_name", "group_id"),
        "account": text("account"),
        "name": text("name"),
        "work_dir": text("current_working_directory"),
        "submit_line": text("submit_line"),
        ("script_language", "script_launcher"): lambda record: line_facts(record.get("submit_line") or ""),
        "dependency": lambda record: dependency_as_submitted(record.get("dependency")),
        "partition": text("partition"),
        "qos": text("qos"),
        "reservation": text("resv_name"),
        "constraint": text("features"),
        "nodes": text("nodes"),
        "tasks_asked": number("tasks", none=0),
        ("tres_asked", "nodes_asked", "cpus_asked", "gpus_asked"): _requested_values,
        ("memory_asked", "memory_per"): lambda record: memory_asked(_memory(record), _requested(record)),
        "time_limit": minutes("time_limit"),
        ("tres_given", "nodes_given", "cpus_given", "memory_given", "gpus_given"): _allocated_values,
        "defaulted": _defaulted,
        "priority": number("priority"),
        "eligible": moment("eligible_time"),
        "start": moment("start_time"),
        "end": moment("end_time"),
        "suspended": _suspended,
        "restarts": number("restart_cnt"),
        "state": state("job_state"),
        "reason": text("state_reason"),
        ("exit_code", "exit_signal"): exit_status("exit_code"),
        ("derived_exit_code", "_derived_signal"): exit_status("derived_exit_code"),
    }
)
