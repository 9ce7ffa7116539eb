"""The fields of records, each with the key of scontrol that holds it."""

from __future__ import annotations

from forewarn.job.sbatch.script_facts import line_facts
from forewarn.sources.scontrol import values
from forewarn.sources.scontrol.values import decimal, duration, memory_by, name, number, size, text, time
from forewarn.sources.slurm.record_values import Fields


def job_fields(zone: str) -> Fields:
    """Return the fields of a job; those with a leading underscore are not in its record."""
    return {
        "job_id": values.job_id,
        "raw_id": number("JobId"),
        "array_job_id": number("ArrayJobId"),
        ("array_task_id", "array_tasks"): values.array_task,
        "het_job_id": number("HetJobId"),
        "het_offset": number("HetJobOffset"),
        "user": name("UserId"),
        "group": name("GroupId"),
        "account": text("Account"),
        "name": text("JobName"),
        "work_dir": text("WorkDir"),
        "submit_line": text("SubmitLine"),
        ("script_language", "script_launcher"): lambda record: line_facts(record.get("SubmitLine", "")),
        "dependency": values.dependency,
        "partition": text("Partition"),
        "qos": text("QOS"),
        "reservation": text("Reservation"),
        "constraint": text("Features"),
        "nodes": text("NodeList"),
        "nodes_asked": values.nodes_asked,
        "tasks_asked": lambda record: number("NumTasks")(record) or None,  # 0: not requested
        "cpus_asked": values.cpus_asked,
        ("memory_asked", "memory_per"): values.requested_memory,
        "time_limit": duration("TimeLimit"),
        ("tres_asked", "_nodes", "_cpus", "_memory", "gpus_asked"): values.requested_resources,
        "defaulted": values.defaulted_fields,
        "priority": number("Priority"),
        ("tres_given", "nodes_given", "cpus_given", "memory_given", "gpus_given"): values.allocated_resources,
        "submit": time("SubmitTime", zone),
        "eligible": time("EligibleTime", zone),
        "start": time("StartTime", zone),
        "end": time("EndTime", zone),
        "restarts": number("Restarts"),
        "state": text("JobState"),
        "reason": values.job_reason,
        ("exit_code", "exit_signal"): values.exit_status("ExitCode"),
        ("derived_exit_code", "_derived_signal"): values.exit_status("DerivedExitCode"),
        "_run_time": duration("RunTime"),
        "_considered": time("LastSchedEval", zone),
    }


def node_fields(zone: str) -> Fields:
    """Return the fields of a node."""
    return {
        "name": text("NodeName"),
        "state": values.node_state,
        ("reason", "reason_at"): values.node_reason(zone),
        "boot": time("BootTime", zone),
        "slurmd_start": time("SlurmdStartTime", zone),
        "last_busy": time("LastBusyTime", zone),
        "cpus": number("CPUTot"),
        "cpus_given": number("CPUAlloc"),
        "memory": size("RealMemory"),  # this and the next two in megabytes
        "memory_given": size("AllocMem"),
        "memory_free": size("FreeMem"),
        "cpu_load": decimal("CPULoad"),
        "gpus": values.node_gpus,
        "gres": text("Gres"),
        "features": text("AvailableFeatures"),
        "partitions": text("Partitions"),
        "architecture": text("Arch"),
        "version": text("Version"),
    }


def partition_fields() -> Fields:
    """Return the fields of a partition."""
    return {
        "name": text("PartitionName"),
        "state": text("State"),
        "is_default": values.is_default,
        "nodes": text("Nodes"),
        "nodes_total": number("TotalNodes"),
        "cpus_total": number("TotalCPUs"),
        "time_max": duration("MaxTime"),
        "time_default": duration("DefaultTime"),
        "nodes_max": number("MaxNodes"),
        ("memory_max", "memory_max_per"): memory_by("MaxMemPer"),
        ("memory_default", "memory_default_per"): memory_by("DefMemPer"),
        "qos": text("QoS"),
        "priority_tier": number("PriorityTier"),
    }
