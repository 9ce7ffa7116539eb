"""Advice as a diff of the script, or as a command to type."""

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

Proposal = TypeVar("Proposal", Advice, Saving)
_MEMORY = ("mem", "mem-per-cpu", "mem-per-gpu")
# The names of sbatch's options in `scontrol update`.
_UPDATES = {
    "time": "TimeLimit",
    "mem": "MinMemoryNode",
    "mem-per-cpu": "MinMemoryCPU",
    "partition": "Partition",
    "nodes": "NumNodes",
}


@dataclass(frozen=True, slots=True)
class ChangedSubmission:
    """A changed submission: the script, and the options of the command line, which override it."""

    text: str
    command_line: tuple[str, ...]
    changes: tuple[Change, ...]
    diff: str | None


def applied(
    script: Script, changes: Sequence[Change], command_line: Sequence[str] = (), *, name: str = "job.sbatch"
) -> ChangedSubmission:
    """Apply changes where they take effect.

    An option set on the command line or by a variable overrides the script: it changes on the command line.
    """
    merged = tuple(_merged(change, script) for change in changes)
    elsewhere = [c for c in merged if c.option in script.options and _origin(script, c) != "script"]
    text, diff = script_diff(script.text, [c for c in merged if c not in elsewhere], name=name)
    typed = (*command_line, *(f"--{change.option}={change.after}" for change in elsewhere))
    return ChangedSubmission(text, typed, merged, diff or None)


def for_script(proposal: Proposal, script: Script, path: str, command_line: Sequence[str] = ()) -> Proposal:
    """Add the diff of the script and the sbatch command to a proposal for a job that is not submitted yet."""
    submission = applied(script, proposal.changes, command_line, name=path)
    in_script = [option for option in _MEMORY if option in script.options]
    changed = [change.option for change in submission.changes if change.option in _MEMORY]
    command = None
    # sbatch rejects two memory options, and with several components the command line sets only the first.
    if (not changed or in_script in ([], changed)) and len(script.components) == 1:
        options: list[str] = [f"--{change.option}={change.after}" for change in submission.changes]
        command = shlex.join(["sbatch", *command_line, *options, path if path[:1] != "-" else f"./{path}"])
    return replace(proposal, changes=submission.changes, diff=submission.diff, command=command)


def _origin(script: Script, change: Change) -> str:
    return script.options[change.option].origin


def _merged(change: Change, script: Script) -> Change:
    """Merge the nodes to exclude with those that the script excludes already."""
    before = script.options.value("exclude") if change.option == "exclude" else None
    if not before:
        return change
    with suppress(ValueError):
        nodes = compress_nodes([*expand_nodes(before), *expand_nodes(change.after)])
        return replace(change, before=before, after=nodes)
    return change


def for_job(proposal: Proposal, job_id: str) -> Proposal:
    """Add the scontrol command to a proposal for a pending job.

    A list of excluded nodes would replace the job's own, which no record contains: that is left to its user.
    """
    if any(change.option == "exclude" for change in proposal.changes):
        return proposal
    updates = " ".join(_update(change) for change in proposal.changes)
    return replace(proposal, command=f"scontrol update JobId={job_id} {updates}")


def _update(change: Change) -> str:
    """Format one change for scontrol, which takes memory in megabytes.

    >>> _update(Change(option="mem", before="8G", after="24G"))
    'MinMemoryNode=24576'
    """
    value = change.after
    if change.option.startswith("mem") and (memory := parse_memory(value)):
        value = str(memory.bytes >> 20)
    return f"{_UPDATES[change.option]}={shlex.quote(value)}"
