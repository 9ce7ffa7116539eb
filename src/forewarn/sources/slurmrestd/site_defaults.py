"""Defaults of a site for what jobs leave open, as the controller's jobs show them.

From v0.0.39 to v0.0.44 slurmrestd does not show which partition is the default, and in no version the
cluster's default memory. But jobs have flags for what they left open.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from forewarn.sources.base import Batch


class SiteDefaults:
    """The defaults learned so far: the most frequent ones of the latest answer that showed any."""

    def __init__(self) -> None:
        self.partition: str | None = None
        self.memory: Mapping[str, tuple[int, str]] = {}  # by partition: bytes, and what they are per

    def learn(self, jobs: pl.DataFrame) -> None:
        """Learn from the controller's jobs of one answer."""
        left_open = pl.col("defaulted").str.split(",")
        # For a pending job that named several partitions it is not known yet which one set the memory.
        single = ~pl.col("partition").str.contains(",", literal=True)
        chosen = jobs.filter(left_open.list.contains("partition") & single)["partition"].value_counts(
            sort=True
        )
        if chosen.height:
            self.partition = chosen["partition"][0]
        has_default = left_open.list.contains("memory_asked") & single & pl.col("memory_asked").is_not_null()
        counts = (
            jobs.filter(has_default)
            .group_by("partition", "memory_asked", "memory_per")
            .len()
            .sort("len", "memory_asked")
        )
        latest = {
            name: (amount, per) for name, amount, per, _ in counts.iter_rows()
        }  # the last: most frequent
        self.memory = {**self.memory, **latest}

    def fill(self, batch: Batch) -> Batch:
        """Add to partitions what their own records omit."""
        frame = batch.frame
        if self.partition is not None and frame["is_default"].null_count() == frame.height:
            frame = frame.with_columns(is_default=pl.col("name") == self.partition)
        for name, (amount, per) in self.memory.items():
            missing = (pl.col("name") == name) & pl.col("memory_default").is_null()
            frame = frame.with_columns(
                memory_default=pl.when(missing).then(amount).otherwise("memory_default"),
                memory_default_per=pl.when(missing).then(pl.lit(per)).otherwise("memory_default_per"),
            )
        return Batch(batch.kind, frame, batch.bad)
