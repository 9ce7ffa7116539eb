"""Rules on options: those that sbatch rejects, and those that it reads differently than intended."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations

from forewarn.assess.assessment import Finding
from forewarn.assess.finding_codes import FindingCode, FixCode
from forewarn.assess.script.script_context import ScriptContext
from forewarn.evidence import Value
from forewarn.job.memory import units
from forewarn.job.sbatch.getopt import GivenOption

_MEMORY = ("mem", "mem-per-cpu", "mem-per-gpu")
# Pairs of which the last one counts, or that undo each other.
_OPPOSITES = (("requeue", "no-requeue"), ("exclusive", "oversubscribe"), ("quiet", "verbose"))


def problems(context: ScriptContext) -> Iterator[Finding]:
    """Report the problems that the parser found."""
    for problem in context.script.problems:
        severity = "error" if problem.refused else "note"
        yield Finding(
            rule=problem.rule,
            code=problem.code,
            values=problem.values,
            line=problem.line,
            severity=severity,
            fix=problem.fix,
        )


def memory_twice(context: ScriptContext) -> Iterator[Finding]:
    """Find more than one of `--mem`, `--mem-per-cpu` and `--mem-per-gpu`, which exclude each other."""
    found = [given for given in context.script.options.entries if given.option in _MEMORY]
    # Script and command line override a variable; they do not override each other.
    effective = [given for given in found if given.origin != "environment"] or found
    for first, second in combinations({given.option: given for given in effective}.values(), 2):
        yield Finding(
            rule="conflict",
            code=FindingCode.MEMORY_TWICE,
            values={"one": first.spelled, "other": second.spelled},
            line=max((given.line for given in (first, second) if given.line), default=None),
            severity="error",
            fix=FixCode.KEEP_ONE,
        )


def opposites(context: ScriptContext) -> Iterator[Finding]:
    """Find options that undo each other."""
    options = context.script.options
    for one, other in _OPPOSITES:
        if one in options and other in options:
            line = max((g.line for g in (options[one], options[other]) if g.line), default=None)
            values = {"one": one, "other": other}
            yield Finding(rule="conflict", code=FindingCode.OPPOSITES, values=values, line=line)


def given_twice(context: ScriptContext) -> Iterator[Finding]:
    """Find options with two values in the same script, of which the last one counts."""
    seen: dict[str, tuple[str | None, int | None]] = {}
    for given in context.script.options.entries:
        if given.origin != "script":
            continue
        if given.option in seen and seen[given.option][0] != given.value:
            value, line = seen[given.option]
            yield Finding(
                rule="given-twice",
                code=FindingCode.GIVEN_TWICE,
                values=_as_given(given) | {"former": value, "former_line": line},
                line=given.line,
                fix=FixCode.KEEP_ONE,
            )
        seen[given.option] = (given.value, given.line)


def time_form(context: ScriptContext) -> Iterator[Finding]:
    """Find ambiguous time limits: for Slurm ``00:30`` is thirty seconds, ``30`` thirty minutes."""
    given = context.script.options.get("time")
    limit = context.script.request.time_limit
    if given is None or given.value is None or limit is None:
        return
    if re.fullmatch(r"\d+:\d+", given.value):
        yield Finding(
            rule="time-form",
            code=FindingCode.MINUTES_AND_SECONDS,
            values=_as_given(given) | {"limit": limit},
            line=given.line,
            fix=FixCode.WRITE_HOURS,
        )
    elif given.value.isdecimal() and limit:
        yield Finding(
            rule="time-form",
            code=FindingCode.MINUTES,
            values=_as_given(given) | {"limit": limit},
            line=given.line,
            severity="note",
        )


def own_size(context: ScriptContext) -> Iterator[Finding]:
    """Find a program configured for more memory than the job requests, for example by `-Xmx`."""
    floor, request = context.script.memory_floor, context.script.request
    if floor is None or not request.memory or (request.memory_per == "gpu" and not request.gpus):
        return
    nodes = max(request.min_nodes, 1)
    counted = units(request.memory_per, nodes=nodes, cpus=request.cpus, gpus=request.gpus)
    requested = -(-request.memory * counted // nodes)
    if floor.bytes > requested:
        yield Finding(
            rule="memory-below-own-size",
            code=FindingCode.MEMORY_BELOW_OWN_SIZE,
            values={"option": floor.text, "own_size": floor.bytes, "asked": requested},
            line=floor.line,
            fix=FixCode.REQUEST_MORE_THAN_OWN_SIZE,
        )


def array_output(context: ScriptContext) -> Iterator[Finding]:
    """Find array tasks that overwrite each other's output."""
    options = context.script.options
    if "array" not in options:
        return
    for option in ("output", "error"):
        given = options.get(option)
        if given is not None and given.value and not re.search(r"%\d*[aAjJ]", given.value):
            if given.value == "/dev/null" or options.value("open-mode") in ("append", "a"):
                continue
            yield Finding(
                rule="shared-output",
                code=FindingCode.SHARED_OUTPUT,
                values=_as_given(given),
                line=given.line,
                fix=FixCode.NAME_BY_TASK,
            )


def _as_given(given: GivenOption) -> dict[str, Value]:
    """Return an option as it is written."""
    return {"spelled": given.spelled, "value": given.value}


RULES = (problems, memory_twice, opposites, given_twice, time_form, own_size, array_output)
