"""Advice as something to type or to apply: a diff of the script, or a command."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeVar

from forewarn.assess.assessment import Advice, Change, Saving
from forewarn.assess.script.diff import script_diff
from forewarn.job.sbatch.script import Script
from forewarn.job.units import compress_nodes, expand_nodes, parse_memory

Kind = TypeVar("Kind", Advice, Saving)
_MEMORY = ("mem", "mem-per-cpu", "mem-per-gpu")
# How `scontrol update` names what sbatch calls otherwise.
_UPDATES = {
    "time": "TimeLimit",
    "mem": "MinMemoryNode",
    "mem-per-cpu": "MinMemoryCPU",
    "partition": "Partition",
    "nodes": "NumNodes",
}


@dataclass(frozen=True, slots=True)
class ChangedSubmission:
    """A submission with changes made: in the script, or over it on the command line."""

    text: str
    command_line: tuple[str, ...]
    changes: tuple[Change, ...]
    diff: str | None


def applied(
    script: Script, changes: Sequence[Change], command_line: Sequence[str] = (), *, name: str = "job.sbatch"
) -> ChangedSubmission:
    """Make the changes where they count.

    What was set on the command line or by a variable goes over the script: the command line changes that.
    """
    merged = tuple(_merged(change, script) for change in changes)
    elsewhere = [c for c in merged if c.option in script.options and _origin(script, c) != "script"]
    text, diff = script_diff(script.text, [c for c in merged if c not in elsewhere], name=name)
    typed = (*command_line, *(f"--{change.option}={change.after}" for change in elsewhere))
    return ChangedSubmission(text, typed, merged, diff or None)


def for_script(advice: Kind, script: Script, path: str, command_line: Sequence[str] = ()) -> Kind:
    """Advice on a job that is not submitted yet: the script that follows it, and the command that does."""
    made = applied(script, advice.changes, command_line, name=path)
    kinds = [option for option in _MEMORY if option in script.options]
    sets = [change.option for change in made.changes if change.option in _MEMORY]
    command = None
    # sbatch takes no two kinds of memory, and of several components the command line means the first alone.
    if (not sets or kinds in ([], sets)) and len(script.components) == 1:
        options: list[str] = [f"--{change.option}={change.after}" for change in made.changes]
        command = shlex.join(["sbatch", *command_line, *options, path if path[:1] != "-" else f"./{path}"])
    return replace(advice, changes=made.changes, diff=made.diff, command=command)


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


def for_job(advice: Kind, job_id: str) -> Kind:
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
