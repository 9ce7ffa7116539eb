"""What a user usually requests, by their own earlier jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from forewarn.job.memory_columns import node_memory_column

FEWEST = 10  # earlier jobs below which there is no usual request
HIGH = 0.95  # quantile level of the second number


@dataclass(frozen=True, slots=True)
class UsualRequest:
    """A user's usual request: median and 95th percentile of each field.

    Fields are memory_asked (bytes per node), time_limit, nodes_asked, cpus_asked.
    """

    jobs: int
    fields: Mapping[str, tuple[float, float]]

    @classmethod
    def of(cls, jobs: pl.DataFrame) -> UsualRequest:
        """Summarise earlier jobs, with columns as in the record; each job of a bulk counts.

        >>> jobs = pl.DataFrame({"nodes_asked": [1, 1, 2], "cpus_asked": [4, None, 4]})
        >>> UsualRequest.of(jobs).fields["nodes_asked"]
        (1.0, 2.0)
        """
        found: dict[str, tuple[float, float]] = {}
        if "memory_asked" in jobs.columns:
            jobs = jobs.with_columns(memory_asked=node_memory_column())
        for name in ("memory_asked", "time_limit", "nodes_asked", "cpus_asked"):
            values = jobs[name].drop_nulls() if name in jobs.columns else pl.Series(dtype=pl.Float64)
            values = values.filter(values > 0)
            if values.len():
                middle, high = values.median(), values.quantile(HIGH, "higher")
                assert isinstance(middle, (int, float))
                assert high is not None
                found[name] = (float(middle), float(high))
        return cls(jobs.height, found)
