"""What a submitted script needs, and whether it is broken: the same script of the same user, the same again.

In this order:

- a line ``#SIM memory=12G time=0:40:00 exit=3 after=0:01:00`` states it;
- a script that `details` wrote for a job of this cluster needs what that job needed;
- a script of ``sleep``, ``exit``, ``true``, ``false``, ``echo`` and ``hostname`` alone does what it says;
- any other is a run of one of the scenario's programs, with needs drawn from a hash of its user and text
  without the ``#SBATCH`` lines: a script that asks for more needs no more than before.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from math import exp

import numpy as np

from forewarn.job.sbatch.values import memory as read_memory
from forewarn.job.units import parse_duration
from forewarn.sources.simulator.kernel import endings
from forewarn.sources.simulator.kernel.layout import BY_CPU, BY_NODE, World
from forewarn.sources.simulator.kernel.rng import below, mix, normal, uniform
from forewarn.sources.simulator.live.admission import AdmittedRequest, refused
from forewarn.sources.simulator.scenario import Scenario

MIB = 1 << 20
_DAY = 86400
_SMALL = 40  # MiB: a shell
_STATED = re.compile(r"^#SIM[ \t]+(.*)$", re.MULTILINE)
_CASE = re.compile(r"/run(\d{6,}) --case (\d+)\b")
_SIMPLE = re.compile(r"(sleep|exit|true|false|echo|hostname|:)\b[ \t]*([^;&|<>$`()]*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramNeeds:
    """What one run needs, in the kernel's numbers, and when and how its own fault ends it."""

    application: int
    need_time: int
    need_memory: int
    peak_after: int
    bug_after: int = endings.NEVER
    bug_cause: int = endings.SCRIPT
    bug_exit: int = 0
    bug_signal: int = 0


def case_in(script: str) -> tuple[int, int] | None:
    """Return campaign and case of a script that was written for a job of this cluster."""
    found = _CASE.search(script)
    return (int(found[1]), int(found[2])) if found else None


def needs_of(
    script: str, user: str, task: int, request: AdmittedRequest, scenario: Scenario, world: World
) -> ProgramNeeds:
    """Compute what a script needs; `task` is the index of an array task, else 0."""
    application = _application(script, user, scenario)
    if (stated := _STATED.search(script)) is not None:
        return _stated(stated[1], application)
    body = "\n".join(line for line in script.splitlines() if line.strip() and not line.startswith("#"))
    return _simple(body, application) or _drawn(body, user, task, request, application, world)


def _stated(text: str, application: int) -> ProgramNeeds:
    time, memory, code, after = 600, _SMALL, 0, endings.NEVER
    for word in text.split():
        name, _, value = word.partition("=")
        try:
            if name == "memory":
                memory = max(1, -(-read_memory(value) // MIB))
            elif name == "exit":
                code = int(value)
            elif name in ("time", "after"):
                seconds = parse_duration(value)
                if seconds is None:
                    raise ValueError("not a duration")
                time, after = (seconds, after) if name == "time" else (time, seconds)
            else:
                raise ValueError("known are memory, time, exit, after")
        except ValueError as error:
            raise refused(f"#SIM {word}: {error}") from None
    time = max(time, 1)
    if code and after < 0:
        after = time - 1
    return ProgramNeeds(
        application=application,
        need_time=time,
        need_memory=memory,
        peak_after=max(1, time // 2),
        bug_after=after if code else endings.NEVER,
        bug_exit=code & 255,
    )


def _simple(body: str, application: int) -> ProgramNeeds | None:
    """Return the needs of a script whose few commands need no simulated program; None for any other."""
    seconds, code = 0, 0
    for command in re.split(r"[;\n]", body):
        if not command.strip():
            continue
        found = _SIMPLE.fullmatch(command.strip())
        if found is None:
            return None
        name, value = found[1], found[2].strip()
        if name == "sleep":
            if not value.isdecimal():
                return None
            seconds += int(value)
        code = int(name == "false")
        if name == "exit":
            code = int(value) & 255 if value.isdecimal() else code
            break
    time = max(seconds, 1)
    return ProgramNeeds(
        application=application,
        need_time=time + bool(code),
        need_memory=_SMALL,
        peak_after=time,
        bug_after=time if code else endings.NEVER,
        bug_exit=code,
    )


def _application(script: str, user: str, scenario: Scenario) -> int:
    """Choose the program: one whose name or module is in the script, else by its hash and their weights."""
    text = script.lower()
    for place, (name, app) in enumerate(scenario.applications.items()):
        words = {name, *(module.partition("/")[0] for module in app.modules)} - {"python"}
        if app.weight > 0 and any(re.search(rf"\b{re.escape(word.lower())}\b", text) for word in words):
            return place
    weights = np.cumsum([app.weight for app in scenario.applications.values()])
    return int(np.searchsorted(weights, uniform(_key(user), 1) * weights[-1], side="right"))


def _drawn(
    body: str, user: str, task: int, request: AdmittedRequest, application: int, world: World
) -> ProgramNeeds:
    """Draw the needs as the kernel draws those of its own users' programs."""
    key = mix(np.uint64(world.seed), _key(user, body) & np.uint64(0x7FFFFFFFFFFFFFFF))
    case = mix(key, task)
    app, settings = world.applications[application], world.settings[0]
    size = exp(app["size_spread"] * normal(key, 5) + app["input_spread"] * normal(case, 1))
    cpus = request.cpus_node * request.nodes
    speed = (cpus / world.cpus_choices[application, 0]) ** app["scaling"]
    time = app["run_time"] * size ** app["run_power"] / speed * exp(app["run_spread"] * normal(case, 2))
    need_time = max(20, min(int(time), 40 * _DAY))
    memory = app["memory"] * size ** app["memory_power"]
    if app["memory_by"] == BY_CPU:
        memory *= request.cpus_node
    elif app["memory_by"] != BY_NODE:
        memory /= request.nodes
    node = world.groups[world.partitions[request.partition]["group"]]["memory"]
    peak = min(max(app["memory_peak"] + 0.12 * normal(case, 3), 0.01), 0.99)
    is_broken = uniform(key, 6) < settings["script_broken"] * app["broken"]
    is_bad_input = uniform(case, 5) < settings["bad_input"]
    return ProgramNeeds(
        application=application,
        need_time=need_time,
        need_memory=max(_SMALL, min(int(memory), int(0.96 * node))),
        peak_after=max(2, int(peak * need_time)),
        bug_after=2 + below(case, 7, 60) if is_broken or is_bad_input else endings.NEVER,
        bug_cause=endings.SCRIPT if is_broken else endings.INPUT,
        bug_exit=1 + below(key, 8, 2) if is_broken or is_bad_input else 0,
    )


def _key(*texts: str) -> np.uint64:
    digest = hashlib.sha256("\0".join(texts).encode("utf-8", "surrogatepass")).digest()
    return np.uint64(int.from_bytes(digest[:8], "little"))
