"""The state of the simulated world as arrays of records, so that compiled code reads it by name.

Times are Unix seconds, durations seconds, memory MiB, -1 for never. Jobs live in a ring: job `seq`
(its place in the order of submission) is `jobs[seq & (len(jobs) - 1)]` until it is handed out.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

# Shapes of a campaign, what an agent is doing, what a job is doing, how memory is asked for.
SINGLE, SWEEP, ARRAY, CHAIN = range(4)
IDLE, SUBMITTING, WAITING = range(3)
PENDING, RUNNING, ENDED = range(3)
BY_NODE, BY_CPU, DEFAULTED, ALL_OF_NODE = range(4)
NO_EXIT_BUT_NODE_FAIL = -1  # in `node_exit`: the scheduler lost the node, no program could exit


def _whole(names: str) -> list[tuple[str, str]]:
    return [(name, "i8") for name in names.split()]


def _real(names: str) -> list[tuple[str, str]]:
    return [(name, "f8") for name in names.split()]


CLOCK = np.dtype(
    _whole("now order events head tail ready target job_id campaign workflow user running")
    + _whole("outages outage_from outage_until awaited")
)
GROUP = np.dtype(_whole("first count cpus memory gpus freed"))
PARTITION = np.dtype(
    _whole("group time_default time_max memory_per_cpu nodes_max priority preemptible cpus")
    + _whole("queued blocked claimed")
)
APPLICATION = np.dtype(
    _real("weight memory memory_power memory_peak run_time run_power run_spread scaling")
    + _real("size_spread input_spread broken io_exposed")
    + _whole("memory_by mpi gpus cpus_choices nodes_choices names")
)
DRIFT_EVENT = np.dtype(_whole("application") + _real("day memory run_time broken"))
COMPUTE_NODE = np.dtype(
    _whole("group up ill failures stamp claim")
    + _whole("cpus memory gpus")  # free
    + _whole("cpus_lent memory_lent gpus_lent")  # held by jobs that may be preempted
)
PERSON = np.dtype(
    _whole("number account group arrive leave weekend workflows active")
    + _real("skill activity from_hour hours")
)
# A workflow of a person: what they do again and again, and where they are in it.
AGENT = np.dtype(
    _whole("user workflow application stem shape automated cpus nodes")
    + _real("size growth time_safety memory_safety")
    # the request they are used to
    + _whole("partition limit time_defaulted memory memory_mode runs")
    # the campaign
    + _whole("campaign campaign_shape campaign_stage wake_at todo todo_from redo out probe last")
    + _whole("broken version epoch tries")
    + _real("input broken_late")
    # failures seen since they last looked
    + _whole("saw_memory saw_time saw_script saw_input saw_preempted")
)
JOB = np.dtype(
    _whole("number array task user account group")
    + _whole("agent workflow application stem campaign index shape version mistake older")
    # asked and given
    + _whole("partition partition_first nodes cpus cpus_node tasks gpus_node memory_mode memory_asked")
    + _whole("memory_given limit limit_first time_defaulted priority")
    # its life
    + _whole("submit changed_at start end state stamp cause again place")
    # of a job submitted from outside: whether it is, whether others wait for its end, its row of `excluded`
    + _whole("visitor awaited excluded")
    # its truth
    + _whole("need_memory need_time peak_after kill_delay")
    + _whole("bug_after bug_cause bug_exit bug_signal node_after node_exit node_signal sick_node")
    + _whole("outage_after cancel_after preempt_after")
)

Records = NDArray[Any]


class World(NamedTuple):
    """The whole state of the simulation, and its settings."""

    seed: np.uint64
    settings: Records  # one record: the scenario's numbers by name
    clock: Records  # one record
    groups: Records
    partitions: Records
    by_priority: NDArray[np.int64]  # partitions, most urgent first
    applications: Records
    cpus_choices: NDArray[np.int64]
    nodes_choices: NDArray[np.int64]
    drift: Records
    offsets: NDArray[np.int64]  # the zone's offset from UTC, one for each day since the first
    nodes: Records
    people: Records
    lag: NDArray[np.int64]  # person × partition: up to when their share of it is used (virtual time)
    agents: Records
    todo: NDArray[np.int64]  # agent × cases still to submit
    redo: NDArray[np.int64]  # agent × cases that failed
    jobs: Records  # the ring
    placed: NDArray[np.int64]  # the ring's jobs × nodes they hold
    running: NDArray[np.int64]  # seqs of running jobs, in no order
    events: NDArray[np.int64]
    queues: NDArray[np.int64]  # one heap for each partition
    excluded: NDArray[np.bool_]  # sets of nodes that some job may not use × nodes
