"""Nodes: which are free, which a job takes, which it releases."""

from __future__ import annotations

from typing import Any

from forewarn.compiled import inner


@inner
def ring(w: Any, seq: int) -> int:
    """Return where a job stands in the ring."""
    return int(seq & (w.jobs.size - 1))


@inner
def find_nodes(w: Any, seq: int, lent_too: bool) -> bool:
    """Find the first nodes on which a job fits and write them to its place; with `lent_too` count nodes as
    free that jobs of a preemptible partition would have to leave.

    Small jobs fill the group from its first node, jobs that take most of a node from its last: so
    neither cuts the other's room to pieces.
    """
    i = ring(w, seq)
    job = w.jobs[i]
    group = w.groups[w.partitions[job.partition].group]
    large = 2 * job.cpus_node > group.cpus
    found = 0
    for k in range(group.count):
        n = group.first + (group.count - 1 - k if large else k)
        node = w.nodes[n]
        if not node.up or (node.claim >= 0 and node.claim != job.partition):
            continue
        if job.excluded >= 0 and w.excluded[job.excluded, n]:
            continue
        cpus, memory, gpus = node.cpus, node.memory, node.gpus
        if lent_too:
            cpus, memory, gpus = cpus + node.cpus_lent, memory + node.memory_lent, gpus + node.gpus_lent
        if cpus >= job.cpus_node and memory >= job.memory_given and gpus >= job.gpus_node:
            w.placed[i, found] = n
            found += 1
            if found == job.nodes:
                return True
    return False


@inner
def occupy(w: Any, seq: int, sign: int) -> None:
    """Take the job's nodes (sign 1) or release them (-1)."""
    i = ring(w, seq)
    job = w.jobs[i]
    partition = w.partitions[job.partition]
    for k in range(job.nodes):
        node = w.nodes[w.placed[i, k]]
        node.cpus -= sign * job.cpus_node
        node.memory -= sign * job.memory_given
        node.gpus -= sign * job.gpus_node
        if partition.preemptible:
            node.cpus_lent += sign * job.cpus_node
            node.memory_lent += sign * job.memory_given
            node.gpus_lent += sign * job.gpus_node
    if sign < 0:
        free(w, partition.group)


@inner
def claim_nodes(w: Any, seq: int) -> None:
    """Reserve the emptiest nodes for a job: no other partition starts jobs there until it has started."""
    job = w.jobs[ring(w, seq)]
    group = w.groups[w.partitions[job.partition].group]
    for _ in range(job.nodes):
        best = -1
        for n in range(group.first, group.first + group.count):
            node = w.nodes[n]
            if node.up and node.claim < 0 and (best < 0 or node.cpus > w.nodes[best].cpus):
                best = n
        if best >= 0:
            w.nodes[best].claim = job.partition
    w.partitions[job.partition].claimed = seq


@inner
def give_up_claim(w: Any, p: int) -> None:
    """Release the reservation of a partition."""
    partition = w.partitions[p]
    group = w.groups[partition.group]
    for n in range(group.first, group.first + group.count):
        if w.nodes[n].claim == p:
            w.nodes[n].claim = -1
    partition.claimed = -1
    free(w, partition.group)


@inner
def free(w: Any, g: int) -> None:
    """Mark a group for another scheduling pass, since something in it became free."""
    w.groups[g].freed = 1
    for p in range(w.partitions.size):
        if w.partitions[p].group == g:
            w.partitions[p].blocked = 0
