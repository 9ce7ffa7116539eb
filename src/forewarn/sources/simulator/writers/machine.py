"""The simulated nodes and partitions, as slurmrestd answers `/slurm/v0.0.45/nodes` and `/partitions`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from forewarn.files import write_file
from forewarn.job.units import compress_nodes
from forewarn.sources.simulator.scenario import NodeGroup, Scenario
from forewarn.sources.simulator.world import start_of, width
from forewarn.sources.simulator.writers.slurmrestd import NEWEST


def write_machine(scenario: Scenario, folder: Path) -> tuple[Path, Path]:
    """Write nodes.json and partitions.json to a folder: all idle, as on the scenario's first day."""
    groups = {group.prefix: group for group in scenario.nodes}
    nodes = (_node(scenario, group, name) for group in scenario.nodes for name in _names(group))
    partitions = (_partition(scenario, i, groups[p.nodes]) for i, p in enumerate(scenario.partitions))
    return (
        _write(scenario, folder / "nodes.json", "nodes", nodes),
        _write(scenario, folder / "partitions.json", "partitions", partitions),
    )


def _names(group: NodeGroup) -> list[str]:
    return [f"{group.prefix}{n:0{width(group.count)}}" for n in range(1, group.count + 1)]


def _number(value: int) -> dict[str, Any]:
    return {"set": True, "infinite": False, "number": value}


def _node(scenario: Scenario, group: NodeGroup, name: str) -> dict[str, Any]:
    start = start_of(scenario)
    return {
        "architecture": "x86_64",
        "boot_time": _number(start),
        "cluster_name": scenario.cluster.name,
        "cpus": group.cpus,
        "gres": f"gpu:{group.gpus}" if group.gpus else "",
        "last_busy": _number(start),
        "name": name,
        "state": ["IDLE"],
        "partitions": [p.name for p in scenario.partitions if p.nodes == group.prefix],
        "real_memory": group.memory_gib * 1024,
        "reason": "",
        "alloc_memory": 0,
        "alloc_cpus": 0,
        "slurmd_start_time": _number(start),
        "features": [],
        "version": "simulated",
    }


def _partition(scenario: Scenario, place: int, group: NodeGroup) -> dict[str, Any]:
    spec = scenario.partitions[place]
    return {
        "cluster": scenario.cluster.name,
        "name": spec.name,
        "nodes": {"configured": compress_nodes(_names(group)), "total": group.count},
        "cpus": {"total": group.count * group.cpus},
        "defaults": {
            "time": _number(spec.time_default // 60),
            "partition_memory_per_cpu": _number(spec.memory_per_cpu_mib),
        },
        "maximums": {"time": _number(spec.time_max // 60), "nodes": _number(spec.nodes_max)},
        "flags": ["DEFAULT"] if place == 0 else [],
        "partition": {"state": ["UP"]},
        "priority": {"tier": spec.priority},
        "qos": {"assigned": spec.qos},
    }


def _write(scenario: Scenario, path: Path, key: str, records: Iterable[dict[str, Any]]) -> Path:
    answer = {
        key: list(records),
        "last_update": _number(start_of(scenario)),
        "meta": {
            "plugin": {"type": "openapi/slurmctld", "data_parser": f"data_parser/{NEWEST}"},
            "slurm": {"release": "simulated", "cluster": scenario.cluster.name},
        },
        "errors": [],
        "warnings": [],
    }
    write_file(path, json.dumps(answer))
    return path
