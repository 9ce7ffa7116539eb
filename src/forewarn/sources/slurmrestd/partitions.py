"""The fields of partitions in answers of the controller: flat up to v0.0.38, nested since."""

from __future__ import annotations

from types import MappingProxyType

from forewarn.sources.slurm.record_values import (
    MB,
    FieldReader,
    Fields,
    RawRecord,
    at,
    minutes,
    number,
    text,
    words,
)


def _state(record: RawRecord) -> str | None:
    state = words("partition.state", "state", joined="+")(record)
    return state.upper() if state else None


def _is_default(record: RawRecord) -> bool | None:
    """Read the default flag: in lower case up to v0.0.38, and missing from v0.0.39 to v0.0.44."""
    flags = at("flags")(record)
    return "DEFAULT" in {flag.upper() for flag in flags} if isinstance(flags, list) else None


def _memory(per_cpu: tuple[str, str], per_node: tuple[str, str]) -> FieldReader:
    """Build a reader of an amount and what it is per; 0 is no limit and no default."""
    cpu, node = number(*per_cpu, scale=MB, none=0), number(*per_node, scale=MB, none=0)

    def read(record: RawRecord) -> tuple[int | None, str | None]:
        for per, reader in (("cpu", cpu), ("node", node)):
            if (amount := reader(record)) is not None:
                return amount, per
        return None, None

    return read


def _time_default(record: RawRecord) -> int | None:
    """Read the default time limit; v0.0.36 and v0.0.37 always have 0."""
    return minutes("defaults.time", "default_time_limit")(record) or None


PARTITION: Fields = MappingProxyType(
    {
        "cluster": text("cluster"),
        "name": text("name"),
        "state": _state,
        "is_default": _is_default,
        "nodes": text("nodes.configured", "nodes"),
        "nodes_total": number("nodes.total", "total_nodes"),
        "cpus_total": number("cpus.total", "total_cpus"),
        "time_max": minutes("maximums.time", "max_time_limit"),
        "time_default": _time_default,
        "nodes_max": number("maximums.nodes", "maximum_nodes_per_job"),
        ("memory_max", "memory_max_per"): _memory(
            ("maximums.partition_memory_per_cpu", "maximum_memory_per_cpu"),
            ("maximums.partition_memory_per_node", "maximum_memory_per_node"),
        ),
        ("memory_default", "memory_default_per"): _memory(
            ("defaults.partition_memory_per_cpu", "default_memory_per_cpu"),
            ("defaults.partition_memory_per_node", "default_memory_per_node"),
        ),
        "qos": text("qos.assigned", "qos"),
        "priority_tier": number("priority.tier", "priority_tier"),
    }
)
