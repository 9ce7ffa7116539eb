"""A job's life: submitted with its hidden truth, started, hit by faults, ended, noticed by its user."""

from __future__ import annotations

from math import exp
from typing import Any

from forewarn.compiled import inner
from forewarn.sources.simulator.kernel.endings import (
    INPUT,
    MEMORY,
    NODE,
    NONE,
    PREEMPTED,
    SCRIPT,
    TIME,
    USER_CANCEL,
    first_ending,
)
from forewarn.sources.simulator.kernel.events import (
    CHANGE,
    DRAIN,
    END,
    IMPATIENT,
    WAKE,
    heap_push,
    schedule_event,
)
from forewarn.sources.simulator.kernel.layout import (
    CHAIN,
    ENDED,
    NO_EXIT_BUT_NODE_FAIL,
    PENDING,
    RUNNING,
    WAITING,
)
from forewarn.sources.simulator.kernel.machine import occupy, ring
from forewarn.sources.simulator.kernel.people import DAY, notice_at
from forewarn.sources.simulator.kernel.requests import memory_given, memory_of, run_time_of
from forewarn.sources.simulator.kernel.rng import (
    CAMPAIGN,
    CASE,
    JOB,
    below,
    exponential,
    key_of,
    mix,
    normal,
    uniform,
)
from forewarn.sources.simulator.kernel.rng import NODE as NODE_DICE

_TURN_MAX = 2 * DAY  # nobody's turn is later than this, whatever they have asked
_SHARE_FACTOR = 6.0  # how much longer than alone somebody's burst takes when others wait too


@inner
def submit(w: Any, a: int, index: int, t: int, number: int, array: int) -> None:
    """Submit one job, with everything that will be true of it."""
    s, clock, agent = w.settings[0], w.clock[0], w.agents[a]
    person, partition = w.people[agent.user], w.partitions[agent.partition]
    seq = clock.tail
    clock.tail += 1
    job = w.jobs[ring(w, seq)]
    job.number, job.array, job.task = number, array, index if array else -1
    job.submit, job.start, job.end, job.changed_at = t, -1, -1, -1
    job.older, agent.last = agent.last, seq
    job.user, job.account, job.group = person.number, person.account, person.group
    job.agent, job.workflow, job.application, job.stem = a, agent.workflow, agent.application, agent.stem
    job.campaign, job.index, job.shape, job.version = (
        agent.campaign,
        index,
        agent.campaign_shape,
        agent.version,
    )
    job.partition = job.partition_first = agent.partition
    job.nodes, job.cpus_node, job.cpus = agent.nodes, agent.cpus, agent.cpus * agent.nodes
    job.gpus_node = w.applications[agent.application].gpus
    job.tasks = job.cpus if w.applications[agent.application].mpi else job.nodes
    job.memory_mode, job.memory_asked = agent.memory_mode, agent.memory
    job.memory_given = memory_given(w, partition, agent.memory_mode, agent.memory, agent.cpus)
    job.limit = job.limit_first = agent.limit
    job.time_defaulted = agent.time_defaulted
    job.state, job.stamp, job.cause, job.again = PENDING, 0, NONE, 0
    job.node_after = job.outage_after = job.cancel_after = job.preempt_after = -1
    job.node_exit = job.node_signal = 0
    job.sick_node = -1
    job.visitor, job.awaited, job.excluded = 0, 0, -1
    _draw_truth(w, seq, agent)
    agent.out += 1
    person.active += 1
    enqueue(w, seq, t)
    key = key_of(w.seed, JOB, seq)
    if uniform(key, 30) < s.changed:
        wait = s.changed_after_minutes * 60.0 * (1.0 + exponential(key, 31))
        schedule_event(w, t + int(wait), CHANGE, seq, 0)
    patience = 600 + int(exponential(key, 32) * s.patience_days * DAY)
    if patience < 10 * DAY:
        schedule_event(w, t + patience, IMPATIENT, seq, 0)


@inner
def _draw_truth(w: Any, seq: int, agent: Any) -> None:
    """Draw what the job needs and what is wrong with it, by its case: the same case needs the same again,
    except for what differs from run to run."""
    s, app = w.settings[0], w.applications[agent.application]
    job = w.jobs[ring(w, seq)]
    key = key_of(w.seed, JOB, seq)
    case = mix(key_of(w.seed, CASE, agent.campaign), job.index)
    size = agent.input * exp(app.input_spread * normal(case, 1))
    run_time = run_time_of(w, agent, size) * exp(app.run_spread * normal(case, 2) + 0.06 * normal(key, 1))
    job.need_time = max(20, min(int(run_time), 40 * DAY))
    roomiest = 0
    for g in range(w.groups.size):
        if (w.groups[g].gpus > 0) == (app.gpus > 0):
            roomiest = max(roomiest, w.groups[g].memory)
    memory = memory_of(w, agent, size) * exp(0.03 * normal(key, 2))
    job.need_memory = max(40, min(int(memory), int(0.96 * roomiest)))
    peak = min(max(app.memory_peak + 0.12 * normal(case, 3), 0.01), 0.99)
    job.peak_after = max(2, int(peak * job.need_time))
    job.kill_delay = below(key, 3, 30)
    job.bug_after, job.bug_cause, job.bug_exit, job.bug_signal = -1, SCRIPT, 0, 0
    job.mistake = agent.campaign if agent.broken else 0
    if agent.broken:
        late = agent.broken_late if agent.broken == SCRIPT else 0.0
        job.bug_after = 1 + int(exponential(key, 4) * 8.0) + int(late * job.need_time)
        job.bug_cause = agent.broken
        _draw_exit(job, mix(key_of(w.seed, CAMPAIGN, agent.campaign), 50))
    elif uniform(mix(case, agent.epoch), 5) < s.bad_input:
        job.bug_after, job.bug_cause = 2 + int(exponential(key, 6) * 20.0), INPUT
        _draw_exit(job, case)
    elif uniform(key, 7) < s.flaky * app.broken:
        job.bug_after = 1 + int(uniform(key, 8) * job.need_time)
        _draw_exit(job, mix(key, 9))
    if uniform(key, 10) < s.cancelled_running:
        job.cancel_after = 5 + int(uniform(key, 11) ** 2 * job.need_time)


@inner
def _draw_exit(job: Any, key: Any) -> None:
    """Draw the exit code of a broken program. A missing file or module is 1, 2 or 127; a bug also dies by
    signal: 139 and 134 where a shell passes it on, 0:11 and 0:6 where it does not."""
    u = uniform(key, 1)
    if job.bug_cause == INPUT:
        job.bug_exit = 1 if u < 0.45 else 2 if u < 0.75 else 127
    elif u < 0.55:
        job.bug_exit = 1
    elif u < 0.66:
        job.bug_exit = 2
    elif u < 0.72:
        job.bug_exit = 127
    elif u < 0.84:
        job.bug_exit = 139
    elif u < 0.90:
        job.bug_exit = 134
    else:
        job.bug_signal = 11 if u < 0.96 else 6


@inner
def enqueue(w: Any, seq: int, t: int) -> None:
    """Queue a job in its partition, ordered by how much its user has already requested there."""
    clock = w.clock[0]
    job = w.jobs[ring(w, seq)]
    partition, slot = w.partitions[job.partition], w.agents[job.agent].user
    turn = min(max(t, w.lag[slot, job.partition]), t + _TURN_MAX)
    w.lag[slot, job.partition] = turn + int(_SHARE_FACTOR * job.limit * job.cpus / partition.cpus)
    job.priority = 10_000 * partition.priority + max(0, 10_000 - (turn - t) // 60)
    heap_push(w.queues[job.partition], partition.queued, turn, clock.order, 0, seq, job.stamp)
    partition.queued += 1
    clock.order += 1
    w.groups[partition.group].freed = 1


@inner
def start(w: Any, seq: int, t: int) -> None:
    """Start a job on the nodes that were found."""
    s, clock = w.settings[0], w.clock[0]
    i = ring(w, seq)
    job = w.jobs[i]
    job.state, job.start = RUNNING, t
    job.place = clock.running
    w.running[clock.running] = seq
    clock.running += 1
    occupy(w, seq, 1)
    key = key_of(w.seed, JOB, seq)
    for k in range(job.nodes):
        n = w.placed[i, k]
        if w.nodes[n].ill and job.node_after < 0 and uniform(key, 40 + k) < s.ill_failure:
            job.sick_node = n
            job.node_after = 2 + int(exponential(key, 39) * 100.0)
            _draw_sick_exit(w, job, n, key)
    if (
        t < clock.outage_until
        and uniform(key, 38) < s.outage_reach * w.applications[job.application].io_exposed
    ):
        job.outage_after = 2 + below(key, 37, 30)
    aim(w, seq)


@inner
def _draw_sick_exit(w: Any, job: Any, n: int, key: Any) -> None:
    """Draw how a node's fault shows: a lost mount (107), I/O errors (5), bad memory (SIGBUS)."""
    illness = mix(key_of(w.seed, NODE_DICE, n), w.nodes[n].stamp)
    u = uniform(illness, 1) if uniform(key, 36) < 0.75 else uniform(key, 35)
    if u < 0.35:
        job.node_exit = 107
    elif u < 0.6:
        job.node_exit = 5
    elif u < 0.85:
        job.node_signal = 7
    else:
        job.node_exit = NO_EXIT_BUT_NODE_FAIL


@inner
def aim(w: Any, seq: int) -> None:
    """Set when and why a running job ends, as things stand."""
    job = w.jobs[ring(w, seq)]
    cause, after = first_ending(
        job.need_time,
        job.limit,
        job.kill_delay,
        job.need_memory,
        job.memory_given,
        job.peak_after,
        job.bug_after,
        job.bug_cause,
        job.node_after,
        job.outage_after,
        job.cancel_after,
        job.preempt_after,
    )
    # A time limit shortened from outside may have passed already.
    job.cause, job.end = cause, max(job.start + after, w.clock[0].now)
    job.stamp += 1
    schedule_event(w, job.end, END, seq, job.stamp)


@inner
def strike_node(w: Any, seq: int, n: int, t: int) -> None:
    """Fail the node under a running job."""
    job = w.jobs[ring(w, seq)]
    if job.node_after < 0 or job.node_after > t - job.start:
        job.node_after, job.sick_node = t - job.start, n
        job.node_exit, job.node_signal = NO_EXIT_BUT_NODE_FAIL, 0
        aim(w, seq)


@inner
def strike_outage(w: Any, seq: int, t: int) -> None:
    """Fail the file system under a running job, which notices within seconds."""
    s, job = w.settings[0], w.jobs[ring(w, seq)]
    key = mix(key_of(w.seed, JOB, seq), 60 + w.clock[0].outages)
    if uniform(key, 1) < s.outage_reach * w.applications[job.application].io_exposed and job.outage_after < 0:
        job.outage_after = t - job.start + below(key, 2, 20)
        aim(w, seq)


@inner
def preempt(w: Any, seq: int, t: int) -> None:
    """End a running job at once for another."""
    job = w.jobs[ring(w, seq)]
    job.preempt_after = t - job.start
    aim(w, seq)


@inner
def cancel(w: Any, seq: int, t: int, again: int) -> None:
    """Cancel a job as its user would, perhaps to resubmit it fixed."""
    job = w.jobs[ring(w, seq)]
    job.again = again
    if job.state == PENDING:
        job.state, job.end, job.cause = ENDED, t, USER_CANCEL
        _hear(w, seq, t)
    elif job.state == RUNNING and (job.cancel_after < 0 or job.start + job.cancel_after > t):
        job.cancel_after = t - job.start + 1
        aim(w, seq)


@inner
def finish(w: Any, seq: int, t: int) -> None:
    """End a running job: free its nodes, and let its user notice."""
    clock = w.clock[0]
    job = w.jobs[ring(w, seq)]
    occupy(w, seq, -1)
    clock.running -= 1
    last = w.running[clock.running]
    w.running[job.place] = last
    w.jobs[ring(w, last)].place = job.place
    job.state = ENDED
    if job.cause == NODE and w.nodes[job.sick_node].ill:
        node = w.nodes[job.sick_node]
        node.failures += 1
        if node.failures >= w.settings[0].ill_failures_noticed and node.up:
            schedule_event(w, t, DRAIN, job.sick_node, node.stamp)
    _hear(w, seq, t)


@inner
def _hear(w: Any, seq: int, t: int) -> None:
    """Tell the workflow that one of its jobs has ended."""
    job = w.jobs[ring(w, seq)]
    w.clock[0].awaited += job.awaited
    if job.visitor:
        return
    a = job.agent
    agent = w.agents[a]
    agent.out -= 1
    w.people[agent.user].active -= 1
    if job.cause == NONE:
        agent.runs += 1
    elif job.cause != USER_CANCEL or job.again:
        w.redo[a, agent.redo] = job.index
        agent.redo += 1
        agent.saw_memory |= job.cause == MEMORY
        agent.saw_time |= job.cause == TIME
        agent.saw_script |= job.cause == SCRIPT
        agent.saw_input |= job.cause == INPUT
        agent.saw_preempted |= job.cause == PREEMPTED
    if agent.campaign_stage == WAITING and agent.wake_at <= t:
        arrange_look(w, a, t)


@inner
def arrange_look(w: Any, a: int, t: int) -> None:
    """Schedule when the workflow's owner, or their script, next looks at it."""
    agent = w.agents[a]
    key = mix(key_of(w.seed, CAMPAIGN, agent.campaign), 100 + w.clock[0].order)
    if agent.redo > 0:
        when = notice_at(w, w.people[agent.user], t, key, 1)
    elif agent.out > 0:
        return
    elif agent.campaign_shape == CHAIN or agent.todo_from == agent.todo:
        when = t + 1 + below(key, 2, 20)
    else:
        when = notice_at(w, w.people[agent.user], t, key, 3)
    agent.wake_at = when
    schedule_event(w, when, WAKE, a, when)
