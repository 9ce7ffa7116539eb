"""Advice as something to type or to apply: a diff of the script, or a command."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from forewarn.assess.assessment import Advice, Change
from forewarn.assess.script.diff import script_diff
from forewarn.job.sbatch.script import Script
from forewarn.job.units import compress_nodes, expand_nodes, parse_memory

_MEMORY = ("mem", "mem-per-cpu", "mem-per-gpu")
# How `scontrol update` names what sbatch calls otherwise.
_UPDATES = {
    "time": "TimeLimit",
    "mem": "MinMemoryNode",
    "mem-per-cpu": "MinMemoryCPU",
    "partition": "Partition",
    "nodes": "NumNodes",
}


def for_script(advice: Advice, script: Script, path: str, command_line: Sequence[str] = ()) -> Advice:
    """Advice on a job that is not submitted yet: the script that follows it, and the command that does.

    What was set on the command line or by a variable goes over the script: then only the command helps.
    """
    changes = [_merged(change, script) for change in advice.changes]
    elsewhere = {c.option for c in changes if c.option in script.options and _origin(script, c) != "script"}
    _, diff = script_diff(script.text, [c for c in changes if c.option not in elsewhere], name=path)
    kinds = [option for option in _MEMORY if option in script.options]
    sets = [change.option for change in changes if change.option in _MEMORY]
    command = None
    if not sets or kinds in ([], sets):  # sbatch takes no two kinds of memory
        changed = [f"--{change.option}={change.after}" for change in changes]
        command = shlex.join(["sbatch", *command_line, *changed, path if path[:1] != "-" else f"./{path}"])
    return replace(advice, changes=tuple(changes), diff=diff or None, command=command)


def _origin(script: Script, change: Change) -> str:
    return script.options[change.option].origin


def _merged(change: Change, script: Script) -> Change:
    """Nodes to keep off beside those that the script names already."""
    before = script.options.value("exclude") if change.option == "exclude" else None
    if not before:
        return change
    with suppress(ValueError):
        nodes = compress_nodes([*expand_nodes(before), *expand_nodes(change.after)])
        return replace(change, before=before, after=nodes)
    return change


def for_job(advice: Advice, job_id: str) -> Advice:
    """Advice on a job that waits: what changes it in its place.

    A list of nodes to keep off would replace the job's own, which no record tells: that is left to its user.
    """
    if any(change.option == "exclude" for change in advice.changes):
        return advice
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
