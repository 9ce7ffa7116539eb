"""Scripts and outputs of jobs of the simulated cluster, written as their users would have written them."""

from __future__ import annotations

from typing import Any

from forewarn.formatting import timestamp
from forewarn.job.units import format_duration, format_memory

_MESSAGES = {
    "out_of_memory": "slurmstepd: error: Detected 1 oom_kill event in StepId={job}.batch. Some of the step "
    "tasks have been OOM Killed.",
    "timeout": "slurmstepd: error: *** JOB {job} ON {node} CANCELLED AT {at} DUE TO TIME LIMIT ***",
    "cancelled": "slurmstepd: error: *** JOB {job} ON {node} CANCELLED AT {at} ***",
    "preempted": "slurmstepd: error: *** JOB {job} ON {node} CANCELLED AT {at} DUE TO PREEMPTION ***",
    "node_fail": "srun: error: Node failure on {node}",
}
_BY_EXIT = {
    107: "OSError: [Errno 107] Transport endpoint is not connected",
    5: "OSError: [Errno 5] Input/output error",
    116: "OSError: [Errno 116] Stale file handle",
    127: "{script}: line 9: {program}: command not found",
    2: "{program}: error: cannot open {work_dir}/input: No such file or directory",
    134: "Aborted (core dumped)",
    139: "Segmentation fault (core dumped)",
}
_BY_SIGNAL = {
    7: "Bus error (core dumped)",
    11: "Segmentation fault (core dumped)",
    6: "Aborted (core dumped)",
}


def script_of(job: dict[str, Any], campaign: int, case: int) -> str:
    """Write the script of a job by its record; `campaign` and `case` say which input it was for."""
    options = [
        f"--job-name={job['name']}",
        f"--partition={job['partition']}" if "partition" not in _defaulted(job) else "",
        f"--account={job['account']}",
        f"--nodes={job['nodes_asked']} --ntasks={job['tasks_asked']}",
        f"--cpus-per-task={job['cpus_asked'] // job['tasks_asked']}"
        if job["cpus_asked"] > job["tasks_asked"]
        else "",
        f"--time={format_duration(job['time_limit'])}" if "time_limit" not in _defaulted(job) else "",
        _memory(job),
        f"--gpus-per-node={job['gpus_asked'] // job['nodes_asked']}" if job["gpus_asked"] else "",
    ]
    lines = ["#!/bin/bash", *(f"#SBATCH {option}" for option in options if option)]
    modules = [f"module load {name}" for name in (job["script_modules"] or "").split(",") if name]
    return "\n".join([*lines, *modules, f"cd {job['work_dir']}", command_of(job, campaign, case), ""])


def command_of(job: dict[str, Any], campaign: int, case: int) -> str:
    """Write the line that runs the program."""
    folder = str(job["work_dir"]).rpartition("/run")[0]
    return f"srun {job['application']} --input {folder}/run{campaign:06} --case {case}"


def output_of(job: dict[str, Any]) -> str:
    """Write the last lines of the output of a job that has ended, by its record."""
    facts = {
        "job": job["raw_id"],
        "node": (job["nodes"] or "").split(",")[0],
        "at": timestamp(job["end"], "UTC"),
        "program": job["application"] or "program",
        "script": "job.sh",
        "work_dir": job["work_dir"],
    }
    text = _MESSAGES.get(job["outcome"])
    if text is None and job["outcome"] == "failed":
        signal = _BY_SIGNAL.get(job["exit_signal"] or 0)
        text = signal or _BY_EXIT.get(job["exit_code"] or 0) or "{program}: error: stopped after an error"
    return f"{facts['program']}: started\n" + (text or "{program}: finished").format_map(facts) + "\n"


def _defaulted(job: dict[str, Any]) -> list[str]:
    return str(job["defaulted"] or "").split(",")


def _memory(job: dict[str, Any]) -> str:
    if "memory_asked" in _defaulted(job) or job["memory_asked"] is None:
        return ""
    option = "--mem-per-cpu" if job["memory_per"] == "cpu" else "--mem"
    return f"{option}={format_memory(job['memory_asked'])}" if job["memory_asked"] else "--mem=0"
