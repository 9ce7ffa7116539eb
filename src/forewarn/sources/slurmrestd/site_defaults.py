"""What a site gives to jobs that leave it open, as the controller's jobs show it.

From v0.0.39 to v0.0.44 slurmrestd does not say which partition is the default one, and in no version what the
configuration of the whole cluster gives for memory. But jobs carry flags of what they left open.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from forewarn.sources.base import Batch


class SiteDefaults:
    """The defaults that were seen so far: the most frequent ones of the latest answer that showed any."""

    def __init__(self) -> None:
        self.partition: str | None = None
        self.memory: Mapping[str, tuple[int, str]] = {}  # by partition: bytes, and what they are counted by

    def learn(self, jobs: pl.DataFrame) -> None:
        """Take in the controller's jobs of one answer."""
        left_open = pl.col("defaulted").str.split(",")
        # Of a pending job that named several partitions nobody knows yet which one gave the memory.
        single = ~pl.col("partition").str.contains(",", literal=True)
        went = jobs.filter(left_open.list.contains("partition") & single)["partition"].value_counts(sort=True)
        if went.height:
            self.partition = went["partition"][0]
        known = left_open.list.contains("memory_asked") & single & pl.col("memory_asked").is_not_null()
        given = (
            jobs.filter(known)
            .group_by("partition", "memory_asked", "memory_per")
            .len()
            .sort("len", "memory_asked")
        )
        seen = {name: (amount, per) for name, amount, per, _ in given.iter_rows()}  # the last: most frequent
        self.memory = {**self.memory, **seen}

    def fill(self, batch: Batch) -> Batch:
        """Add to partitions what their own record does not say."""
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
