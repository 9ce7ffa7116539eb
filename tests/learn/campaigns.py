"""A log without users: campaigns of equal jobs, most of them arrays, more and more of which fail.

Whether a campaign fails is decided at random when it is created, independent of what came before. Once its
first jobs have ended, nearly all is known of the others, which start later.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from forewarn.job.columns import complete

BEGIN = 1_700_000_000
DAY = 86_400


def campaigns(jobs: int, *, seed: int = 0, first: float = 0.03, last: float = 0.63) -> pl.DataFrame:
    """Observations of ended jobs in order of submit; the failure rate moves from `first` to `last`."""
    draw = np.random.default_rng(seed)
    requests = [(int(2 ** draw.integers(0, 6)), int(draw.integers(1, 40)) * 1800) for _ in range(25)]
    parts: list[dict[str, np.ndarray | list[object]]] = []
    total = number = 0
    while total < jobs:
        number += 1
        size = int(min(draw.pareto(0.8) * 4 + 1, 300, jobs - total))
        submit = BEGIN + int(700 * DAY * total / jobs) + int(draw.integers(0, 3600))
        cpus, limit = requests[draw.integers(0, len(requests))]
        fate = draw.random() < first + (last - first) * total / jobs
        failed = np.where(draw.random(size) < 0.97, fate, not fate)
        start = submit + int(draw.integers(60, 7200)) + np.arange(size) * 120
        ran = draw.integers(60, 1500, size)
        is_array = size > 4 and draw.random() < 0.7
        tasks = np.arange(size)
        parts.append(
            {
                "job_id": [f"{number}_{n}" if is_array else f"{number * 1000 + n}" for n in tasks],
                "array_job_id": [number if is_array else None] * size,
                "array_task_id": [int(n) if is_array else None for n in tasks],
                "submit": np.full(size, submit),
                "start": start,
                "end": start + np.minimum(ran, limit),
                "cpus_asked": np.full(size, cpus),
                "time_limit": np.full(size, limit),
                "outcome": np.where(failed, "failed", "completed"),
            }
        )
        total += size
    frame = pl.concat([pl.DataFrame(part, strict=False, schema_overrides=_TYPES) for part in parts])
    return complete(frame.with_columns(cluster=pl.lit("c")).sort("submit")).with_columns(
        seen_at=pl.col("end"), source=pl.lit("test"), reconstructed=pl.lit(True)
    )


_TYPES = {"array_job_id": pl.Int64, "array_task_id": pl.Int64}
