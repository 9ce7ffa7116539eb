"""The event loop: time moves from event to event, and queues are served as nodes become free."""

from __future__ import annotations

from typing import Any

from forewarn.compiled import entry, inner
from forewarn.sources.simulator.kernel.campaigns import wake
from forewarn.sources.simulator.kernel.events import (
    CHANGE,
    CRASH,
    DRAIN,
    DRIFT,
    END,
    FALL_ILL,
    IMPATIENT,
    KIND,
    OUTAGE,
    OUTAGE_OVER,
    REPAIRED,
    STAMP,
    TIME,
    WAKE,
    WHO,
    heap_pop,
    heap_push,
    schedule_event,
)
from forewarn.sources.simulator.kernel.layout import ENDED, PENDING
from forewarn.sources.simulator.kernel.lifecycle import (
    aim,
    cancel,
    enqueue,
    finish,
    preempt,
    start,
    strike_node,
    strike_outage,
)
from forewarn.sources.simulator.kernel.machine import claim_nodes, find_nodes, free, give_up_claim, ring
from forewarn.sources.simulator.kernel.people import DAY, MONTH, arrive
from forewarn.sources.simulator.kernel.requests import round_limit
from forewarn.sources.simulator.kernel.rng import (
    CLUSTER,
    JOB,
    NODE,
    exponential,
    key_of,
    mix,
    uniform,
)

ENOUGH, NO_ROOM, ALL_ENDED, REACHED, AWAITED = range(5)
FOREVER = 1 << 62
# What may be done to a job from outside.
ENQUEUE, WITHDRAW, AIM, CANCEL, SERVE = range(5)
_YEAR = 12.0 * MONTH
_STARVED = DAY // 3  # seconds past its turn after which nodes are kept free for a (wide) job


@entry
def populate(w: Any) -> None:
    """Set up the users and the first of every recurring event, before the first second."""
    s = w.settings[0]
    t = int(s.start)
    for slot in range(int(s.slots)):
        w.people[slot].number = -1
        key = key_of(w.seed, CLUSTER, 1000 + slot)
        if uniform(key, 1) < s.present_at_start:
            arrive(w, slot, t)
        else:
            # An empty slot: its first workflow wakes to find its owner gone, and lets a newcomer in.
            agent = w.agents[slot * int(s.workflows)]
            agent.user = slot
            agent.wake_at = t + int(uniform(key, 2) * s.arrival_months * MONTH)
            w.people[slot].leave = -1
            w.people[slot].workflows = 1
            schedule_event(w, agent.wake_at, WAKE, slot * int(s.workflows), agent.wake_at)
    for n in range(w.nodes.size):
        _again(w, t, CRASH, n, s.crashes_per_year / _YEAR)
        _again(w, t, FALL_ILL, n, s.illnesses_per_year / _YEAR)
    _again(w, t, OUTAGE, 0, s.outages_per_month / MONTH)
    for i in range(w.drift.size):
        schedule_event(w, t + int(w.drift[i].day * DAY), DRIFT, i, 0)


@inner
def _again(w: Any, t: int, kind: int, who: int, rate: float) -> None:
    if rate > 0.0:
        key = mix(key_of(w.seed, NODE, who), t + 13 * kind)
        schedule_event(w, t + 1 + int(exponential(key, 2) / rate), kind, who, 0)


@entry
def advance(w: Any, ready: int, until: int) -> int:
    """Run until so many jobs in the order of submission have ended, or all, or the ring is too small, or the
    next event is later than `until`, or a job that another one waits for has ended."""
    clock = w.clock[0]
    room = w.jobs.size - 2 * w.todo.shape[1]
    while clock.ready - clock.head < ready:
        if clock.ready == clock.target:
            return ALL_ENDED
        # One event may submit a campaign, strike every running job, and start every waiting one.
        in_flight = clock.tail - clock.head
        if in_flight > room or clock.events + 2 * in_flight + 4 * w.todo.shape[1] > w.events.shape[0]:
            return NO_ROOM
        for p in range(w.partitions.size):
            if w.partitions[p].queued > w.queues.shape[1] - 2 * w.todo.shape[1]:
                return NO_ROOM
        if clock.events == 0 or w.events[0, TIME] > until:
            return REACHED
        _next_event(w)
        _serve_all(w)
        if clock.awaited:
            return AWAITED
    return ENOUGH


@entry
def act(w: Any, action: int, seq: int, t: int) -> None:
    """Do something to a job from outside, at a time that has been reached."""
    clock, job = w.clock[0], w.jobs[ring(w, seq)]
    clock.now = t
    if action == ENQUEUE:
        job.stamp += 1  # leaves the queue that it was in
        enqueue(w, seq, t)
    elif action == WITHDRAW:
        job.stamp += 1
        free(w, w.partitions[job.partition].group)
    elif action == AIM:
        aim(w, seq)
    elif action == CANCEL:
        cancel(w, seq, t, 0)
    else:
        free(w, w.partitions[job.partition].group)
    _serve_all(w)


@inner
def _serve_all(w: Any) -> None:
    """Start what can be started where something became free, and count the jobs that have ended in order."""
    clock = w.clock[0]
    for g in range(w.groups.size):
        while w.groups[g].freed:
            w.groups[g].freed = 0
            _serve(w, g, clock.now)
    while clock.ready < clock.tail and w.jobs[ring(w, clock.ready)].state == ENDED:
        clock.ready += 1


@inner
def _next_event(w: Any) -> None:
    clock = w.clock[0]
    t, kind, who, stamp = w.events[0, TIME], w.events[0, KIND], w.events[0, WHO], w.events[0, STAMP]
    heap_pop(w.events, clock.events)
    clock.events -= 1
    clock.now = t
    if kind == WAKE:
        if stamp == w.agents[who].wake_at and clock.tail < clock.target:
            wake(w, who, t)
    elif kind == END:
        if who >= clock.head and w.jobs[ring(w, who)].stamp == stamp:
            finish(w, who, t)
    elif kind in (CHANGE, IMPATIENT):
        if who >= clock.head and w.jobs[ring(w, who)].state == PENDING:
            if kind == CHANGE:
                _change(w, who, t)
            else:
                cancel(w, who, t, 0)
    elif kind == OUTAGE:
        _outage(w, t)
    elif kind == OUTAGE_OVER:
        for g in range(w.groups.size):
            free(w, g)
    elif kind == DRIFT:
        _drift(w, who)
    else:
        _node_event(w, kind, who, stamp, t)


@inner
def _serve(w: Any, g: int, t: int) -> None:
    """Start what can be started on a group's nodes: partitions by priority, each strictly in turn."""
    s, clock = w.settings[0], w.clock[0]
    if clock.outage_from + s.outage_notice_minutes * 60.0 <= t < clock.outage_until:
        return
    for p in w.by_priority:
        partition = w.partitions[p]
        deferred = False
        while partition.group == g and not partition.blocked:
            seq = _head(w, p)
            if partition.claimed >= 0 and partition.claimed != seq:
                give_up_claim(w, p)
            if seq < 0:
                break
            if find_nodes(w, seq, False):
                heap_pop(w.queues[p], partition.queued)
                partition.queued -= 1
                start(w, seq, t)
                continue
            job = w.jobs[ring(w, seq)]
            if job.excluded >= 0 and not deferred:
                # A job that may use few nodes holds up no other: its turn comes again.
                deferred = True
                heap_pop(w.queues[p], partition.queued)
                heap_push(w.queues[p], partition.queued - 1, t + 60, clock.order, 0, seq, job.stamp)
                clock.order += 1
                continue
            partition.blocked = 1
            if not partition.preemptible:
                if find_nodes(w, seq, True):
                    _make_room(w, seq, t)
                elif partition.claimed < 0 and job.excluded < 0 and t - w.queues[p, 0, TIME] > _STARVED:
                    claim_nodes(w, seq)


@inner
def _head(w: Any, p: int) -> int:
    """Return the job whose turn it is, or -1; skip those cancelled or moved meanwhile."""
    clock, partition, queue = w.clock[0], w.partitions[p], w.queues[p]
    while partition.queued > 0:
        seq = queue[0, WHO]
        if seq >= clock.head:
            job = w.jobs[ring(w, seq)]
            if job.state == PENDING and job.stamp == queue[0, STAMP]:
                return int(seq)
        heap_pop(queue, partition.queued)
        partition.queued -= 1
        partition.blocked = 0
    return -1


@inner
def _make_room(w: Any, seq: int, t: int) -> None:
    """Preempt as many preemptible jobs as necessary on the nodes found for this one."""
    i = ring(w, seq)
    job = w.jobs[i]
    for k in range(job.nodes):
        n = w.placed[i, k]
        cpus, memory, gpus = w.nodes[n].cpus, w.nodes[n].memory, w.nodes[n].gpus
        for r in range(w.clock[0].running):
            if cpus >= job.cpus_node and memory >= job.memory_given and gpus >= job.gpus_node:
                break
            other = w.jobs[ring(w, w.running[r])]
            if w.partitions[other.partition].preemptible and _holds(w, ring(w, w.running[r]), n):
                cpus, memory, gpus = (
                    cpus + other.cpus_node,
                    memory + other.memory_given,
                    gpus + other.gpus_node,
                )
                if other.preempt_after < 0:
                    preempt(w, w.running[r], t)


@inner
def _holds(w: Any, i: int, n: int) -> bool:
    """Check whether a job in the ring holds a node."""
    found = False
    for k in range(w.jobs[i].nodes):
        found |= w.placed[i, k] == n
    return found


@inner
def _change(w: Any, seq: int, t: int) -> None:
    """Change a pending job as its user or an operator would: another partition or time limit."""
    job = w.jobs[ring(w, seq)]
    key = key_of(w.seed, JOB, seq)
    partition = w.partitions[job.partition]
    if uniform(key, 20) < w.settings[0].partition_moved:
        for p in range(w.partitions.size):
            other = w.partitions[p]
            if (
                p != job.partition
                and other.group == partition.group
                and not other.preemptible
                and other.time_max >= job.limit
                and other.nodes_max >= job.nodes
            ):
                job.partition = p
                job.changed_at = t
                job.stamp += 1
                partition.blocked = 0
                enqueue(w, seq, t)
                return
    # Longer, having seen others run out of time; or shorter, hoping to start sooner.
    factor = 1.5 if uniform(key, 21) < 0.6 else 0.4
    limit = min(round_limit(job.limit * factor), partition.time_max)
    if limit != job.limit:
        job.limit = limit
        job.changed_at = t


@inner
def _outage(w: Any, t: int) -> None:
    s, clock = w.settings[0], w.clock[0]
    clock.outages += 1
    key = key_of(w.seed, CLUSTER, 100_000 + clock.outages)
    clock.outage_from = t
    clock.outage_until = t + 60 + int(exponential(key, 1) * s.outage_minutes * 60.0)
    schedule_event(w, clock.outage_until, OUTAGE_OVER, 0, 0)
    for r in range(clock.running):
        strike_outage(w, w.running[r], t)
    _again(w, clock.outage_until, OUTAGE, 0, s.outages_per_month / MONTH)


@inner
def _node_event(w: Any, kind: int, n: int, stamp: int, t: int) -> None:
    s, node = w.settings[0], w.nodes[n]
    if kind == REPAIRED:
        node.up, node.ill = 1, 0
        free(w, node.group)
    elif kind == DRAIN:
        if node.up and node.ill and node.stamp == stamp:
            _take_down(w, n, t)
    elif kind == FALL_ILL:
        if node.up and not node.ill:
            node.ill, node.failures = 1, 0
            node.stamp += 1
            key = mix(key_of(w.seed, NODE, n), 500 + node.stamp)
            schedule_event(w, t + 60 + int(exponential(key, 1) * s.ill_hours * 3600.0), DRAIN, n, node.stamp)
        _again(w, t, FALL_ILL, n, s.illnesses_per_year / _YEAR)
    else:
        if node.up:
            for r in range(w.clock[0].running):
                if _holds(w, ring(w, w.running[r]), n):
                    strike_node(w, w.running[r], n, t)
            _take_down(w, n, t)
        _again(w, t, CRASH, n, s.crashes_per_year / _YEAR)


@inner
def _take_down(w: Any, n: int, t: int) -> None:
    node = w.nodes[n]
    node.up = 0
    node.stamp += 1
    key = mix(key_of(w.seed, NODE, n), 900_000 + node.stamp)
    schedule_event(
        w, t + 600 + int(exponential(key, 1) * w.settings[0].repair_hours * 3600.0), REPAIRED, n, 0
    )


@inner
def _drift(w: Any, i: int) -> None:
    """Change a program for all users."""
    event = w.drift[i]
    for a in range(w.applications.size):
        if event.application < 0 or event.application == a:
            app = w.applications[a]
            app.memory *= event.memory
            app.run_time *= event.run_time
            app.broken *= event.broken
