"""Campaigns: users begin one, submit jobs, look at the results, fix, retry, give up."""

from __future__ import annotations

from math import exp
from typing import Any

from forewarn.compiled import inner
from forewarn.sources.simulator.kernel.endings import INPUT, SCRIPT
from forewarn.sources.simulator.kernel.events import WAKE, schedule_event
from forewarn.sources.simulator.kernel.layout import (
    ARRAY,
    ENDED,
    IDLE,
    SINGLE,
    SUBMITTING,
    SWEEP,
    WAITING,
)
from forewarn.sources.simulator.kernel.lifecycle import arrange_look, cancel, submit
from forewarn.sources.simulator.kernel.machine import ring
from forewarn.sources.simulator.kernel.people import (
    BURSTS,
    DAY,
    MONTH,
    arrive,
    mean_size,
    next_campaign_at,
    skill_at,
)
from forewarn.sources.simulator.kernel.requests import ask, raise_limit, raise_memory, settle_partition
from forewarn.sources.simulator.kernel.rng import CAMPAIGN, exponential, key_of, mix, normal, uniform

_A_SECOND = 8  # sbatch calls that a loop in a shell makes
_TRIES = 12


@inner
def wake(w: Any, a: int, t: int) -> None:
    """Let the owner of a workflow continue it."""
    agent = w.agents[a]
    if agent.campaign_stage == IDLE:
        person = w.people[agent.user]
        if t > person.leave:
            _leave(w, agent.user, a, t)
        elif person.active > w.settings[0].submit_limit:
            _sleep(w, a, t + DAY // 4)
        else:
            _begin(w, a, t)
            _submit_some(w, a, t)
    elif agent.campaign_stage == SUBMITTING:
        _submit_some(w, a, t)
    else:
        _look(w, a, t)


@inner
def _sleep(w: Any, a: int, until: int) -> None:
    w.agents[a].wake_at = until
    schedule_event(w, until, WAKE, a, until)


@inner
def _leave(w: Any, slot: int, a: int, t: int) -> None:
    """Remove a user whose work is done; the last workflow to notice lets a new user in."""
    workflows = int(w.settings[0].workflows)
    for i in range(w.people[slot].workflows):
        other = slot * workflows + i
        if w.agents[other].campaign_stage != IDLE:
            _sleep(w, a, t + DAY)
            return
    for i in range(w.people[slot].workflows):
        w.agents[slot * workflows + i].wake_at = -1
    arrive(w, slot, t)


@inner
def _begin(w: Any, a: int, t: int) -> None:
    """Begin a campaign: its shape and size, its input, its request, and whether its script is broken."""
    s, clock, agent = w.settings[0], w.clock[0], w.agents[a]
    person = w.people[agent.user]
    clock.campaign += 1
    agent.campaign = clock.campaign
    key = key_of(w.seed, CAMPAIGN, agent.campaign)
    agent.campaign_shape = agent.shape if uniform(key, 1) < BURSTS else SINGLE
    size = 1
    if agent.campaign_shape != SINGLE:
        size = 2 + int(exponential(key, 3) * max(mean_size(w, agent.campaign_shape) - 2.0, 0.5))
    agent.todo, agent.todo_from, agent.redo = min(size, w.todo.shape[1]), 0, 0
    for i in range(agent.todo):
        w.todo[a, i] = i
    age = (t - person.arrive) / MONTH
    agent.input = agent.size * exp(agent.growth * age + s.input_spread * normal(key, 4))
    skill = skill_at(w, person, t)
    clumsy = (1.35 - skill) * w.applications[agent.application].broken
    changed = uniform(key, 5) < 0.5 or agent.runs == 0  # an old script that worked is rarely broken
    odds = clumsy if changed else 0.25 * clumsy
    agent.version += changed
    agent.broken = 0
    if uniform(key, 6) < s.script_broken * odds:
        agent.broken = SCRIPT
    elif uniform(key, 7) < s.input_missing * odds:
        agent.broken = INPUT
    # Most broken scripts break at once, some when the result is to be written.
    agent.broken_late = 0.0 if uniform(key, 8) < 0.65 else uniform(key, 9)
    agent.tries = agent.epoch = 0
    agent.saw_memory = agent.saw_time = agent.saw_script = agent.saw_input = agent.saw_preempted = 0
    agent.probe = int(agent.todo > 2 and uniform(key, 10) < skill * s.probe_first)
    agent.last = -1
    ask(w, agent, t)


@inner
def _submit_some(w: Any, a: int, t: int) -> None:
    """Submit what the campaign's shape submits at once."""
    clock, agent = w.clock[0], w.agents[a]
    left = agent.todo - agent.todo_from
    burst = 1
    if not agent.probe and agent.campaign_shape == ARRAY:
        burst = left
    elif not agent.probe and agent.campaign_shape == SWEEP:
        burst = min(left, _A_SECOND)
    burst = min(burst, clock.target - clock.tail)
    first = clock.job_id
    clock.job_id += burst
    for i in range(burst):
        index = w.todo[a, agent.todo_from + i]
        if agent.campaign_shape == ARRAY:
            # Slurm gives each task a number of its own as it is split off; the last keeps the array's.
            submit(w, a, index, t, first + i + 1 if i < burst - 1 else first, first)
        else:
            submit(w, a, index, t, first + i, 0)
    agent.todo_from += burst
    if agent.campaign_shape == SWEEP and not agent.probe and agent.todo_from < agent.todo and burst > 0:
        agent.campaign_stage = SUBMITTING
        _sleep(w, a, t + 1)
    else:
        agent.campaign_stage = WAITING
        if burst > 0 and agent.redo > 0:
            arrange_look(w, a, t)


@inner
def _look(w: Any, a: int, t: int) -> None:
    """Look at failures: fix the cause or not, then resubmit, go on, or finish."""
    s, agent = w.settings[0], w.agents[a]
    key = mix(key_of(w.seed, CAMPAIGN, agent.campaign), 1000 + agent.tries)
    agent.probe = 0
    agent.campaign_stage = SUBMITTING  # what is heard from now on needs no look of its own
    if agent.redo > 0:
        skill = skill_at(w, w.people[agent.user], t)
        able = 0.3 + 0.7 * skill
        agent.tries += 1
        _fix_causes(w, a, t, able, key)
        if uniform(key, 1) < s.given_up * agent.tries**0.5 or agent.tries > _TRIES:
            if agent.broken:
                agent.todo_from = agent.todo
        else:
            _requeue(w, a)
            careful = uniform(key, 2) < skill * s.probe_first
            agent.probe = int(careful and agent.todo - agent.todo_from > 2)
        agent.redo = 0
        agent.saw_memory = agent.saw_time = agent.saw_script = agent.saw_input = agent.saw_preempted = 0
    if agent.todo_from < agent.todo:
        _submit_some(w, a, t)
    elif agent.out == 0:
        agent.campaign_stage = IDLE
        _sleep(w, a, next_campaign_at(w, a, t, key))
    else:
        agent.campaign_stage = WAITING


@inner
def _fix_causes(w: Any, a: int, t: int, able: float, key: Any) -> None:
    """Decide for each kind of failure seen whether its cause is understood and fixed."""
    s, agent = w.settings[0], w.agents[a]
    if agent.broken and (agent.saw_script or agent.saw_input):
        if agent.out > 0 and uniform(key, 3) < s.rest_cancelled:
            _cancel_rest(w, a, t)
        u = uniform(key, 4)
        if u < s.fixed * able:
            agent.broken = 0
            agent.version += 1
        elif uniform(key, 5) < 0.5:
            agent.version += 1  # something was changed, but not what was wrong
    elif agent.saw_input and uniform(key, 6) < s.fixed * able:
        agent.epoch += 1
    if agent.saw_memory and uniform(key, 7) < s.raised * able:
        raise_memory(w, agent, key)
    if agent.saw_time and uniform(key, 8) < s.raised * able:
        raise_limit(w, agent, key)
    if agent.saw_preempted and uniform(key, 9) < 0.6:
        agent.partition = -1  # enough of it: the first that admits the request
        settle_partition(w, agent)


@inner
def _cancel_rest(w: Any, a: int, t: int) -> None:
    """Cancel the rest of a burst, to resubmit it fixed."""
    agent = w.agents[a]
    seq = agent.last
    while seq >= w.clock[0].head:
        job = w.jobs[ring(w, seq)]
        if job.state != ENDED:
            cancel(w, seq, t, 1)
        seq = job.older


@inner
def _requeue(w: Any, a: int) -> None:
    """Put the failed cases before those never submitted."""
    agent = w.agents[a]
    left = agent.todo - agent.todo_from
    redo = agent.redo
    if redo <= agent.todo_from:
        agent.todo_from -= redo
    else:
        for i in range(left - 1, -1, -1):
            w.todo[a, redo + i] = w.todo[a, agent.todo_from + i]
        agent.todo_from, agent.todo = 0, redo + left
    for i in range(redo):
        w.todo[a, agent.todo_from + i] = w.redo[a, i]
