"""The codes of statements about unusual numbers of a request; without the columns, which need numpy."""

from __future__ import annotations

from forewarn.evidence import Code


class UnusualCode(Code):
    """A code for the number of a request that is unusual."""

    CPUS = "unusual_cpus"
    NODES = "unusual_nodes"
    TASKS = "unusual_tasks"
    GPUS = "unusual_gpus"
    MEMORY = "unusual_memory"
    MEMORY_PER_CPU = "unusual_memory_per_cpu"
    CPUS_PER_NODE = "unusual_cpus_per_node"
    TIME_LIMIT = "unusual_time_limit"
    LIMIT_CHANGE = "unusual_limit_change"
    CPUS_CHANGE = "unusual_cpus_change"
    LIMIT_RATIO = "unusual_limit_ratio"
    MEMORY_RATIO = "unusual_memory_ratio"
    PARTITION = "unusual_partition"
