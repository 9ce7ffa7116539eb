"""Users: when they work, what they learn, and their recurring workflows."""

from __future__ import annotations

from math import exp, log
from typing import Any

from forewarn.compiled import inner
from forewarn.sources.simulator.kernel.events import WAKE, schedule_event
from forewarn.sources.simulator.kernel.layout import (
    ALL_OF_NODE,
    ARRAY,
    BY_CPU,
    BY_NODE,
    CHAIN,
    DEFAULTED,
    IDLE,
    SINGLE,
    SWEEP,
)
from forewarn.sources.simulator.kernel.rng import (
    USER,
    WORKFLOW,
    below,
    exponential,
    key_of,
    normal,
    uniform,
)

DAY = 86400
MONTH = 2629800.0
BURSTS = 0.7  # of the campaigns of a workflow with a preferred shape; the others are single jobs


@inner
def skill_at(w: Any, person: Any, t: int) -> float:
    """Return a user's skill at a time: it grows with experience."""
    learnt = w.settings[0].learning_per_month * (t - person.arrive) / MONTH
    return float(min(0.97, person.skill + learnt))


@inner
def _offset(w: Any, t: int) -> int:
    day = (t - w.settings[0].start) // DAY
    return int(w.offsets[min(max(day, 0), w.offsets.size - 1)])


@inner
def _day_off(person: Any, day: int) -> bool:
    return (day + 3) % 7 >= 5 and person.weekend == 0  # 1970-01-01 was a Thursday


@inner
def at_work(w: Any, person: Any, t: int) -> bool:
    """Check whether a user is at work, by the clock of the cluster's zone."""
    day, second = divmod(t + _offset(w, t), DAY)
    hour = second / 3600.0
    return not _day_off(person, day) and person.from_hour <= hour < person.from_hour + person.hours


@inner
def next_at_work(w: Any, person: Any, t: int, share_of_day: float) -> int:
    """Return the user's next working day, at that share of their hours."""
    offset = _offset(w, t)
    day, second = divmod(t + offset, DAY)
    if second >= person.from_hour * 3600.0:
        day += 1
    while _day_off(person, day):
        day += 1
    return int(day * DAY + (person.from_hour + person.hours * share_of_day) * 3600.0 - offset)


@inner
def notice_at(w: Any, person: Any, t: int, key: Any, salt: int) -> int:
    """Draw when a user sees the result of their job."""
    if at_work(w, person, t):
        return t + 20 + int(exponential(key, salt) * w.settings[0].notice_minutes * 60.0)
    return max(t + 60, next_at_work(w, person, t, 0.2 * uniform(key, salt)))


@inner
def mean_size(w: Any, shape: int) -> float:
    """Return the average number of jobs in a campaign of a shape."""
    s = w.settings[0]
    if shape == SINGLE:
        return 1.0
    if shape == SWEEP:
        return float(s.sweep_size)
    return float(s.array_size) if shape == ARRAY else float(s.chain_size)


@inner
def _draw_shape(w: Any, key: Any) -> int:
    """Draw a shape by the scenario's weights."""
    s = w.settings[0]
    u = uniform(key, 7) * (s.single + s.sweep + s.array + s.chain)
    if u < s.single:
        return SINGLE
    if u < s.single + s.sweep:
        return SWEEP
    return ARRAY if u < s.single + s.sweep + s.array else CHAIN


@inner
def next_campaign_at(w: Any, a: int, t: int, key: Any) -> int:
    """Draw when a workflow is continued: by its owner's activity, and by how far the cluster is behind or
    ahead of the number of jobs it should have seen by now."""
    s, clock, agent = w.settings[0], w.clock[0], w.agents[a]
    person = w.people[agent.user]
    expected = s.jobs_per_day * (t - s.start) / DAY
    ahead = (clock.tail - expected) / (3.0 * s.jobs_per_day)
    pace = exp(min(max(ahead, -2.0), 2.0))
    a_day = person.activity * s.jobs_per_day / (s.slots * person.workflows)
    size = BURSTS * mean_size(w, agent.shape) + 1.0 - BURSTS
    gap = exponential(key, 11) * size / a_day * pace * DAY
    when = t + 30 + int(min(gap, 60.0 * DAY))
    if agent.automated or at_work(w, person, when):
        return when
    return next_at_work(w, person, when, uniform(key, 12))


@inner
def arrive(w: Any, slot: int, t: int) -> None:
    """Add a new user in a slot, with workflows of their own."""
    s, clock, person = w.settings[0], w.clock[0], w.people[slot]
    key = key_of(w.seed, USER, clock.user)
    person.number = clock.user
    clock.user += 1
    odds = log(s.skill / (1.0 - s.skill)) + 2.0 * s.skill_spread * normal(key, 1)
    person.skill = 1.0 / (1.0 + exp(-odds))
    person.activity = exp(s.activity_spread * normal(key, 2) - s.activity_spread**2 / 2.0)
    person.arrive = t
    person.leave = t + int((0.3 + exponential(key, 3) * s.tenure_months) * MONTH)
    owl = uniform(key, 4) < s.night_owls
    person.from_hour = min(max(9.0 + (5.0 if owl else 0.0) + 1.1 * normal(key, 5), 5.0), 15.0)
    person.hours = 7.5 + 1.5 * uniform(key, 6)
    person.weekend = int(uniform(key, 7) < s.weekend_workers)
    person.account = below(key, 8, int(s.accounts))
    person.group = person.account % int(s.groups)
    person.active = 0
    workflows = int(s.workflows)
    person.workflows = 1 + below(key, 9, workflows)
    for p in range(w.lag.shape[1]):
        w.lag[slot, p] = 0
    for i in range(person.workflows):
        a = slot * workflows + i
        _take_up(w, a, slot)
        agent = w.agents[a]
        first = next_campaign_at(w, a, t, key_of(w.seed, WORKFLOW, agent.workflow))
        agent.wake_at = min(first, t + 20 * DAY + a)
        schedule_event(w, agent.wake_at, WAKE, a, agent.wake_at)


@inner
def _take_up(w: Any, a: int, slot: int) -> None:
    """Create a workflow: a program, an input, and habits."""
    s, clock, agent = w.settings[0], w.clock[0], w.agents[a]
    key = key_of(w.seed, WORKFLOW, clock.workflow)
    agent.user = slot
    agent.workflow = clock.workflow
    clock.workflow += 1
    total = 0.0
    for i in range(w.applications.size):
        total += w.applications[i].weight
    u, chosen = uniform(key, 1) * total, 0
    for i in range(w.applications.size):
        u -= w.applications[i].weight
        if u < 0.0:
            chosen = i
            break
    app = w.applications[chosen]
    agent.application = chosen
    agent.stem = below(key, 2, app.names)
    agent.cpus = w.cpus_choices[chosen, below(key, 3, app.cpus_choices)]
    agent.nodes = w.nodes_choices[chosen, below(key, 4, app.nodes_choices)]
    agent.size = exp(app.size_spread * normal(key, 5))
    agent.growth = s.growth_per_month + s.growth_spread * normal(key, 6)
    agent.shape = _draw_shape(w, key)
    agent.automated = int(uniform(key, 8) < s.automated)
    agent.time_safety = s.time_safety * exp(s.safety_spread * normal(key, 9))
    agent.memory_safety = s.memory_safety * exp(s.safety_spread * normal(key, 10))
    agent.time_defaulted = int(uniform(key, 13) < s.time_defaulted)
    u = uniform(key, 14)
    if u < s.memory_defaulted:
        agent.memory_mode = DEFAULTED
    elif u < s.memory_defaulted + s.memory_all:
        agent.memory_mode = ALL_OF_NODE
    else:
        agent.memory_mode = BY_CPU if uniform(key, 15) < s.memory_by_cpu else BY_NODE
    agent.partition = -1
    if uniform(key, 16) < s.scavengers:
        for p in range(w.partitions.size):
            if w.partitions[p].preemptible:
                agent.partition = p
    agent.runs = agent.todo = agent.todo_from = agent.redo = agent.out = agent.version = 0
    agent.campaign_stage = IDLE
    agent.last = -1
