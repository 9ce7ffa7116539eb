"""Rules about options: what sbatch refuses, what it reads otherwise than people mean it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations

from forewarn.assess.assessment import Finding
from forewarn.assess.script.subject import Subject
from forewarn.job.memory import units
from forewarn.job.units import format_duration, format_memory

_MEMORY = ("mem", "mem-per-cpu", "mem-per-gpu")
# Pairs of which the last one counts, or that undo each other.
_OPPOSITES = (("requeue", "no-requeue"), ("exclusive", "oversubscribe"), ("quiet", "verbose"))


def problems(subject: Subject) -> Iterator[Finding]:
    """What the parser could not make sense of."""
    for problem in subject.script.problems:
        severity = "error" if problem.refused else "note"
        yield Finding(
            rule=problem.rule, what=problem.what, line=problem.line, severity=severity, fix=problem.fix
        )


def memory_twice(subject: Subject) -> Iterator[Finding]:
    """Memory by node, by CPU and by GPU exclude each other."""
    found = [given for given in subject.script.options.given if given.option in _MEMORY]
    # A variable gives way to what script or command line say; these two do not give way to each other.
    said = [given for given in found if given.origin != "environment"] or found
    for first, second in combinations({given.option: given for given in said}.values(), 2):
        what = f"{first.spelled} and {second.spelled} exclude each other: sbatch refuses both together"
        line = max((given.line for given in (first, second) if given.line), default=None)
        yield Finding(rule="conflict", what=what, line=line, severity="error", fix="keep one of them")


def opposites(subject: Subject) -> Iterator[Finding]:
    """Options that undo each other."""
    options = subject.script.options
    for one, other in _OPPOSITES:
        if one in options and other in options:
            what = f"--{one} and --{other} contradict each other"
            line = max((g.line for g in (options[one], options[other]) if g.line), default=None)
            yield Finding(rule="conflict", what=what, line=line)


def given_twice(subject: Subject) -> Iterator[Finding]:
    """An option with two values in the same script: the last one counts."""
    seen: dict[str, tuple[str | None, int | None]] = {}
    for given in subject.script.options.given:
        if given.origin != "script":
            continue
        if given.option in seen and seen[given.option][0] != given.value:
            value, line = seen[given.option]
            what = f"{given.spelled} {given.value} overrides {value} of line {line}"
            yield Finding(rule="given-twice", what=what, line=given.line, fix="keep one of them")
        seen[given.option] = (given.value, given.line)


def time_form(subject: Subject) -> Iterator[Finding]:
    """``00:30`` is thirty seconds to Slurm, ``30`` thirty minutes."""
    given = subject.script.options.get("time")
    limit = subject.script.request.time_limit
    if given is None or given.value is None or limit is None:
        return
    if re.fullmatch(r"\d+:\d+", given.value):
        what = f"{given.spelled} {given.value} is minutes:seconds: a limit of {format_duration(limit)}"
        first, second = given.value.split(":")
        fix = f"for {int(first)} h {int(second)} min write {first}:{second}:00"
        yield Finding(rule="time-form", what=what, line=given.line, fix=fix)
    elif given.value.isdecimal() and limit:
        what = f"{given.spelled} {given.value} is minutes: a limit of {format_duration(limit)}"
        yield Finding(rule="time-form", what=what, line=given.line, severity="note")


def own_size(subject: Subject) -> Iterator[Finding]:
    """A program that sizes itself to more memory than the job asks for."""
    floor, request = subject.script.memory_floor, subject.script.request
    if floor is None or not request.memory or (request.memory_per == "gpu" and not request.gpus):
        return
    nodes = max(request.min_nodes, 1)
    counted = units(request.memory_per, nodes=nodes, cpus=request.cpus, gpus=request.gpus)
    asked = -(-request.memory * counted // nodes)
    if floor.bytes > asked:
        what = (
            f"{floor.said} takes up to {format_memory(floor.bytes)}, the job asks for "
            f"{format_memory(asked)} on a node"
        )
        fix = f"ask for more than {format_memory(floor.bytes)}: the program needs some beside that"
        yield Finding(rule="memory-below-own-size", what=what, line=floor.line, fix=fix)


def array_output(subject: Subject) -> Iterator[Finding]:
    """Tasks of an array that write over each other's output."""
    options = subject.script.options
    if "array" not in options:
        return
    for option in ("output", "error"):
        given = options.get(option)
        if given is not None and given.value and not re.search(r"%\d*[aAjJ]", given.value):
            if given.value == "/dev/null" or options.value("open-mode") in ("append", "a"):
                continue
            what = f"every task of the array writes to {given.value}"
            yield Finding(rule="shared-output", what=what, line=given.line, fix="use %A_%a in the name")


RULES = (problems, memory_twice, opposites, given_twice, time_form, own_size, array_output)
