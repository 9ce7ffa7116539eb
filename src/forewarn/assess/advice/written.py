"""Advice as something to type or to apply: a diff of the script, or a command."""

from __future__ import annotations

import shlex
from dataclasses import replace

from forewarn.assess.assessment import Advice, Change
from forewarn.assess.script.diff import script_diff
from forewarn.job.units import parse_memory

# How `scontrol update` names what sbatch calls otherwise.
_UPDATES = {
    "time": "TimeLimit",
    "mem": "MinMemoryNode",
    "mem-per-cpu": "MinMemoryCPU",
    "exclude": "ExcNodeList",
    "partition": "Partition",
    "nodes": "NumNodes",
}


def for_script(advice: Advice, text: str, name: str) -> Advice:
    """Advice on a job that is not submitted yet: the script that follows it."""
    options = " ".join(f"--{change.option}={shlex.quote(change.after)}" for change in advice.changes)
    _, diff = script_diff(text, advice.changes, name=name)
    return replace(advice, diff=diff or None, command=f"sbatch {options} {shlex.quote(name)}")


def for_job(advice: Advice, job_id: str) -> Advice:
    """Advice on a job that waits: what changes it in its place."""
    updates = " ".join(_update(change) for change in advice.changes)
    return replace(advice, command=f"scontrol update JobId={job_id} {updates}")


def _update(change: Change) -> str:
    """One change as scontrol takes it, which counts memory in megabytes.

    >>> _update(Change(option="mem", before="8G", after="24G"))
    'MinMemoryNode=24576'
    """
    value = change.after
    if change.option.startswith("mem") and (memory := parse_memory(value)):
        value = str(memory.bytes >> 20)
    return f"{_UPDATES[change.option]}={shlex.quote(value)}"
