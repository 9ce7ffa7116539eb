"""The Standard Workload Format: 18 numbers per job. Most of Slurm's fields have no place in it.

Lost are array ids, names, folders, scripts, nodes, GPUs, exit codes; memory kills, time-outs and lost
nodes become `failed`, preempted jobs `cancelled`.
"""

from __future__ import annotations

from typing import ClassVar

import polars as pl

from forewarn.job.outcomes import Outcome
from forewarn.sources.simulator.world import start_of
from forewarn.sources.simulator.writers.base import TextWriter
from forewarn.sources.simulator.writers.text import number_in

_STATUS = {Outcome.COMPLETED: 1, Outcome.CANCELLED: 5, Outcome.PREEMPTED: 5}
_FAILED = 0


class SwfWriter(TextWriter):
    """A log with the header directives of the archive."""

    name: ClassVar[str] = "swf"

    def head(self) -> str:
        """Write the directives: start time, zone, names of queues and partitions."""
        cluster = self.scenario.cluster
        lines = {
            "Version": "2.2",
            "Computer": f"simulated cluster {cluster.name}",
            "UnixStartTime": start_of(self.scenario),
            "TimeZoneString": cluster.timezone,
            "MaxNodes": sum(g.count for g in self.scenario.nodes),
            "MaxProcs": sum(g.count * g.cpus for g in self.scenario.nodes),
        }
        named = [f"; Queue: {n} {name}\n" for name, n in self._queues.items()]
        named += [f"; Partition: {n} {name}\n" for name, n in self._partitions.items()]
        return "".join(f"; {key}: {value}\n" for key, value in lines.items()) + "".join(named)

    @property
    def _queues(self) -> dict[str, int]:
        names = dict.fromkeys(p.qos for p in self.scenario.partitions)
        return {name: n for n, name in enumerate(names, 1)}

    @property
    def _partitions(self) -> dict[str, int]:
        return {p.name: n for n, p in enumerate(self.scenario.partitions, 1)}

    def body(self, frame: pl.DataFrame) -> pl.Series:
        """Write the 18 numbers, -1 for what is unknown."""
        col = pl.col
        programs = {name: n for n, name in enumerate(self.scenario.applications, 1)}
        asked = col("tres_asked").str.extract(r"\bmem=(\d+)")
        unit = col("tres_asked").str.extract(r"\bmem=\d+([KMGTP])")
        kilobytes = asked.cast(pl.Int64) * unit.replace_strict(
            {name: 1 << (10 * n) for n, name in enumerate("KMGTP")}, return_dtype=pl.Int64
        )
        status = col("outcome").replace_strict(
            {str(outcome): n for outcome, n in _STATUS.items()}, default=_FAILED, return_dtype=pl.Int64
        )
        numbers = [
            col("raw_id"),
            col("submit") - start_of(self.scenario),
            pl.coalesce("start", "end") - col("submit"),
            col("end") - col("start"),
            col("cpus_given"),
            (col("cpu_time") / col("cpus_given")).round(3),
            col("max_memory") // 1024,
            col("cpus_asked"),
            col("time_limit"),
            kilobytes // col("cpus_asked"),
            status,
            number_in("user"),
            number_in("group"),
            col("application").replace_strict(programs, return_dtype=pl.Int64),
            col("qos").replace_strict(self._queues, return_dtype=pl.Int64),
            col("partition").replace_strict(self._partitions, return_dtype=pl.Int64),
            pl.lit(-1),
            pl.lit(-1),
        ]
        texts = [number.cast(pl.String).fill_null("-1") for number in numbers]
        return frame.select(pl.concat_str(texts, separator=" ")).to_series()
