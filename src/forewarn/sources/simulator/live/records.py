"""The simulated cluster as records: jobs now and ended, nodes, partitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from forewarn.job.columns import complete
from forewarn.job.units import compress_nodes
from forewarn.sources.base import Batch
from forewarn.sources.simulator.kernel.layout import PENDING
from forewarn.sources.simulator.live.ended_jobs import KernelJobs
from forewarn.sources.simulator.live.world import LiveWorld, VisitorJob
from forewarn.sources.simulator.observations import Observer
from forewarn.sources.simulator.world import node_names

MIB, GIB = 1 << 20, 1 << 30


class RecordWriter:
    """A writer of the records of one world."""

    def __init__(self, world: LiveWorld) -> None:
        self._world = world
        self._observer = Observer(world.scenario, world.seed)

    def ended(self, found: KernelJobs) -> Batch:
        """Write jobs as accounting has them."""
        return self._batch(self._observer.ended(found.jobs, found.placed, found.seqs), found)

    def now(self, found: KernelJobs) -> Batch:
        """Write jobs as the controller shows them now."""
        return self._batch(self._observer.now(found.jobs, found.placed, found.seqs, self._world.now), found)

    def _batch(self, frame: pl.DataFrame, found: KernelJobs) -> Batch:
        """Complete the records of jobs from outside, and the reasons for which jobs wait."""
        changed: dict[str, dict[int, Any]] = {}
        first = self._world.first_in_line()
        pending = found.jobs["state"] == PENDING
        for row, seq in enumerate(found.seqs.tolist()):
            values: dict[str, Any] = {}
            if (submitted := self._world.submitted.get(seq)) is not None:
                values |= self._of_submitted(submitted)
            if seq in self._world.cancelled_by and not pending[row]:
                values["cancelled_by"] = self._world.cancelled_by[seq]
            if pending[row] and (reason := self._reason(seq, first)) is not None:
                values["reason"] = reason
            for name, value in values.items():
                changed.setdefault(name, {})[row] = value
        columns = []
        for name, values_by_row in changed.items():
            column = frame[name].to_list()
            for row, value in values_by_row.items():
                # A job that has not ended was cancelled by nobody.
                column[row] = value if name != "cancelled_by" or column[row] is not None else None
            columns.append(pl.Series(name, column, dtype=frame.schema[name]))
        lines = pl.Series("line", np.arange(1, frame.height + 1), dtype=pl.Int64)
        return Batch("job", frame.with_columns(*columns, lines))

    def _reason(self, seq: int, first: set[int]) -> str | None:
        """Return the reason for which a job waits, where it is not its priority."""
        if seq in self._world.held:
            return "JobHeldUser"
        if seq in self._world.waiting:
            return "Dependency" if self._world.fulfilment(seq) is False else "DependencyNeverSatisfied"
        return "Resources" if seq in first else None

    @staticmethod
    def _of_submitted(one: VisitorJob) -> dict[str, Any]:
        job = one.submission
        found: dict[str, Any] = {"user": one.user, "dependency": job.dependency}
        if job.qos is not None:
            found["qos"] = job.qos
        if one.of_cluster:
            return found
        left = {
            "partition": job.partition,
            "memory_asked": job.memory_per_node if job.memory_per_cpu is None else job.memory_per_cpu,
            "time_limit": job.time_limit,
        }
        return found | {
            "name": job.name or "sbatch",
            "work_dir": job.work_dir,
            "application": None,
            "constraint": job.constraint,
            "submit_line": None,
            "script_hash": one.facts.hash,
            "script_language": one.facts.language,
            "script_modules": one.facts.modules,
            "script_launcher": one.facts.launcher,
            "script_environment": one.facts.environment,
            "defaulted": ",".join(name for name, value in left.items() if value is None) or None,
        }

    def nodes(self) -> Batch:
        """Write the nodes."""
        world, scenario = self._world, self._world.scenario
        nodes = world.kernel.nodes
        groups = [scenario.nodes[place] for place in nodes["group"]]
        partitions = {
            group.prefix: ",".join(p.name for p in scenario.partitions if p.nodes == group.prefix)
            for group in scenario.nodes
        }
        given = np.array([group.cpus for group in groups]) - nodes["cpus"]
        memory = np.array([group.memory_gib for group in groups]) * GIB
        frame = pl.DataFrame(
            {
                "cluster": scenario.cluster.name,
                "name": node_names(scenario),
                "state": [
                    _node_state(int(cpus), group.cpus, bool(node["up"]), bool(node["ill"]))
                    for cpus, group, node in zip(given, groups, nodes, strict=True)
                ],
                "reason": [
                    None if node["up"] else "node health check failed" if node["ill"] else "Not responding"
                    for node in nodes
                ],
                "boot": world.begin,
                "slurmd_start": world.begin,
                "cpus": [group.cpus for group in groups],
                "cpus_given": given,
                "cpu_load": given.astype(np.float64),
                "memory": memory,
                "memory_given": memory - nodes["memory"] * MIB,
                "gpus": [group.gpus or None for group in groups],
                "gres": [f"gpu:{group.gpus}" if group.gpus else None for group in groups],
                "partitions": [partitions[group.prefix] for group in groups],
                "architecture": "x86_64",
                "version": "simulated",
            }
        )
        return self._machine_batch(frame, "node")

    def partitions(self) -> Batch:
        """Write the partitions."""
        scenario = self._world.scenario
        names = node_names(scenario)
        groups = [self._world.admission.group(place) for place in range(len(scenario.partitions))]
        specs = list(zip(scenario.partitions, groups, strict=True))
        frame = pl.DataFrame(
            {
                "cluster": scenario.cluster.name,
                "name": [spec.name for spec, _ in specs],
                "state": "UP",
                "is_default": [place == 0 for place in range(len(specs))],
                "nodes": [
                    compress_nodes([name for name in names if name.rstrip("0123456789") == group.prefix])
                    for _, group in specs
                ],
                "nodes_total": [group.count for _, group in specs],
                "cpus_total": [group.count * group.cpus for _, group in specs],
                "time_max": [spec.time_max for spec, _ in specs],
                "time_default": [spec.time_default for spec, _ in specs],
                "nodes_max": [spec.nodes_max for spec, _ in specs],
                "memory_default": [spec.memory_per_cpu_mib * MIB for spec, _ in specs],
                "memory_default_per": "cpu",
                "qos": [spec.qos for spec, _ in specs],
                "priority_tier": [spec.priority for spec, _ in specs],
            }
        )
        return self._machine_batch(frame, "partition")

    def _machine_batch(self, frame: pl.DataFrame, kind: str) -> Batch:
        seen = complete(frame, kind).with_columns(
            seen_at=pl.lit(self._world.now, pl.Int64),
            source=pl.lit("simulator"),
            reconstructed=pl.lit(False),
            line=pl.int_range(1, pl.len() + 1, dtype=pl.Int64),
        )
        return Batch(kind, seen)


def _node_state(given: int, cpus: int, is_up: bool, is_ill: bool) -> str:
    """Write a node's state in Slurm's words.

    >>> _node_state(4, 8, True, False), _node_state(0, 8, False, True), _node_state(0, 8, False, False)
    ('MIXED', 'IDLE+DRAIN', 'DOWN')
    """
    if not is_up and not is_ill:
        return "DOWN"
    busy = "IDLE" if given <= 0 else "ALLOCATED" if given >= cpus else "MIXED"
    return busy if is_up else f"{busy}+DRAIN"
