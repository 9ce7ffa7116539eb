"""What a program needs, what its user requests, and how the two differ."""

from __future__ import annotations

from math import exp
from typing import Any

import numpy as np

from forewarn.compiled import inner
from forewarn.sources.simulator.kernel.layout import ALL_OF_NODE, BY_CPU, BY_NODE
from forewarn.sources.simulator.kernel.people import skill_at
from forewarn.sources.simulator.kernel.rng import CAMPAIGN, key_of, mix, normal, uniform

GIB = 1024
# What people write: round numbers.
_MINUTES = np.array(
    [5, 10, 15, 20, 30, 60, 120, 180, 240, 360, 480, 720, 1080, 1440, 2160, 2880, 4320, 5760, 7200, 10080]
)
_BY_NODE = GIB * np.array(
    [1, 2, 4, 6, 8, 10, 16, 20, 32, 40, 50, 64, 80, 100, 128, 160, 200, 240, 300, 400, 500, 750, 1000, 2000]
)
_BY_CPU = np.array([500, 1000, 1500, 2000, 3000, 4000, 6000, 8000, 10000, 16000, 24000, 32000, 64000, 128000])


@inner
def _rounded_up(values: Any, wanted: float) -> int:
    for value in values:
        if value >= wanted:
            return int(value)
    return int(values[-1])


@inner
def round_limit(seconds: float) -> int:
    """Return the next time limit that people write."""
    return 60 * _rounded_up(_MINUTES, seconds / 60.0)


@inner
def run_time_of(w: Any, agent: Any, size: float) -> float:
    """Compute the seconds that the program takes for an input of this size on the agent's CPUs."""
    app = w.applications[agent.application]
    speed = (agent.cpus * agent.nodes / w.cpus_choices[agent.application, 0]) ** app.scaling
    return float(app.run_time * size**app.run_power / speed)


@inner
def memory_of(w: Any, agent: Any, size: float) -> float:
    """Compute the MiB that it takes on each node at its peak."""
    app = w.applications[agent.application]
    memory = app.memory * size**app.memory_power
    if app.memory_by == BY_CPU:
        return float(memory * agent.cpus)
    return float(memory if app.memory_by == BY_NODE else memory / agent.nodes)


@inner
def memory_given(w: Any, partition: Any, mode: int, asked: int, cpus: int) -> int:
    """Compute the MiB on each node that a request amounts to."""
    node = w.groups[partition.group].memory
    if mode == ALL_OF_NODE:
        return int(node)
    if mode == BY_NODE:
        return int(min(asked, node))
    return int(min((asked if mode == BY_CPU else partition.memory_per_cpu) * cpus, node))


@inner
def _admits(w: Any, p: int, agent: Any, limit: int, memory: float) -> bool:
    partition, app = w.partitions[p], w.applications[agent.application]
    group = w.groups[partition.group]
    return bool(
        (group.gpus >= app.gpus)
        and (app.gpus > 0 or group.gpus == 0)
        and group.memory >= memory
        and group.cpus >= agent.cpus
        and group.count >= agent.nodes
        and partition.nodes_max >= agent.nodes
        and partition.time_max >= limit
    )


@inner
def settle_partition(w: Any, agent: Any) -> None:
    """Choose the partition for the agent's request: the usual one, else the first that admits it, else the
    largest there is, with the request cut down to it."""
    limit = 0 if agent.time_defaulted else agent.limit
    memory = 0
    if agent.memory_mode == BY_NODE:
        memory = agent.memory
    elif agent.memory_mode == BY_CPU:
        memory = agent.memory * agent.cpus
    if agent.partition < 0 or not _admits(w, agent.partition, agent, limit, memory):
        roomiest = agent.partition = -1
        for p in range(w.partitions.size):
            if w.partitions[p].preemptible:
                continue
            if _admits(w, p, agent, limit, memory):
                agent.partition = p
                break
            gpus = w.groups[w.partitions[p].group].gpus
            if (gpus > 0) == (w.applications[agent.application].gpus > 0) and (
                roomiest < 0 or _room(w, p) > _room(w, roomiest)
            ):
                roomiest = p
        if agent.partition < 0:
            agent.partition = roomiest
    partition = w.partitions[agent.partition]
    group = w.groups[partition.group]
    agent.cpus = min(agent.cpus, group.cpus)
    agent.nodes = min(agent.nodes, partition.nodes_max, group.count)
    agent.limit = partition.time_default if agent.time_defaulted else min(agent.limit, partition.time_max)
    if agent.memory_mode == BY_NODE:
        agent.memory = min(agent.memory, group.memory)
    elif agent.memory_mode == BY_CPU:
        agent.memory = min(agent.memory, group.memory // agent.cpus)


@inner
def _room(w: Any, p: int) -> float:
    return float(w.partitions[p].time_max * w.groups[w.partitions[p].group].memory)


@inner
def ask(w: Any, agent: Any, t: int) -> None:
    """Draw the request of a campaign: mostly the last one again, else a guess with a margin, rounded up."""
    s, person = w.settings[0], w.people[agent.user]
    key = mix(key_of(w.seed, CAMPAIGN, agent.campaign), 20)
    if agent.runs > 0 and uniform(key, 1) < s.copied:
        return
    spread = s.guess_spread * (1.15 - skill_at(w, person, t)) * (1.0 if agent.runs == 0 else 0.6)
    run_time = run_time_of(w, agent, agent.input) * exp(spread * normal(key, 2))
    memory = memory_of(w, agent, agent.input) * exp(spread * normal(key, 3)) * agent.memory_safety
    agent.limit = round_limit(max(run_time * agent.time_safety, 240.0))
    if agent.memory_mode == BY_NODE:
        agent.memory = _rounded_up(_BY_NODE, memory)
    elif agent.memory_mode == BY_CPU:
        agent.memory = _rounded_up(_BY_CPU, memory / agent.cpus)
    settle_partition(w, agent)


@inner
def raise_memory(w: Any, agent: Any, key: Any) -> None:
    """Raise memory after a memory kill: about double, from now on per node if it was the default."""
    more = 1.4 + 1.2 * uniform(key, 1)
    partition = w.partitions[agent.partition]
    if agent.memory_mode == BY_CPU:
        agent.memory = _rounded_up(_BY_CPU, agent.memory * more)
    else:
        given = memory_given(w, partition, agent.memory_mode, agent.memory, agent.cpus)
        agent.memory_mode = BY_NODE
        agent.memory = _rounded_up(_BY_NODE, given * more)
    settle_partition(w, agent)


@inner
def raise_limit(w: Any, agent: Any, key: Any) -> None:
    """Raise the limit after a timeout: the next round number that is considerably longer."""
    agent.limit = round_limit(agent.limit * (1.3 + 1.4 * uniform(key, 2)))
    agent.time_defaulted = 0
    settle_partition(w, agent)
