"""Made-up histories with everything in them that features read."""

from __future__ import annotations

import numpy as np
import polars as pl

from forewarn.job.columns import complete

OUTCOMES = (
    "completed",
    "failed",
    "out_of_memory",
    "timeout",
    "node_fail",
    "cancelled",
    "preempted",
    "unknown",
)


def history(jobs: int, seed: int = 0, users: int = 7) -> pl.DataFrame:
    """Jobs in order of submit, some still pending or running, `known_at` a little after their end."""
    draw = np.random.default_rng(seed)

    def some(values: np.ndarray, share: float = 0.2) -> list[object]:
        return [
            None if gone else v for v, gone in zip(values.tolist(), draw.random(jobs) < share, strict=True)
        ]

    submit = 1_700_000_000 + np.sort(draw.integers(0, jobs * 40, jobs))
    start = submit + draw.integers(0, 400, jobs)
    end = start + draw.integers(0, 3000, jobs)
    pending, running = draw.random(jobs) < 0.05, draw.random(jobs) < 0.05
    outcome = draw.choice(OUTCOMES, jobs, p=[0.6, 0.15, 0.05, 0.05, 0.03, 0.06, 0.04, 0.02])
    frame = pl.DataFrame(
        {
            "cluster": ["c"] * jobs,
            "job_id": [str(i + 1) if i % 7 else f"{i + 1}_{i % 5}" for i in range(jobs)],
            "submit": submit,
            "user": some(np.array([f"u{n}" for n in draw.integers(0, users, jobs)]), 0.05),
            "group": some(np.array([f"g{n}" for n in draw.integers(0, 3, jobs)])),
            "account": some(np.array([f"a{n}" for n in draw.integers(0, 4, jobs)])),
            "name": some(np.array([f"Run-{k}_{n:03}" for k, n in enumerate(draw.integers(0, 90, jobs))])),
            "application": some(np.array([f"x{n}" for n in draw.integers(0, 3, jobs)]), 0.8),
            "work_dir": some(np.array([f"/home/p{n % 4}/case{n}" for n in draw.integers(0, 40, jobs)])),
            "submit_line": some(np.array([f"sbatch -n {n} job.sh" for n in draw.integers(1, 4, jobs)])),
            "script_hash": some(np.array([f"{n:x}" for n in draw.integers(0, 9, jobs)])),
            "array_task_id": some(draw.integers(0, 10, jobs), 0.8),
            "array_job_id": some(draw.integers(0, jobs // 20 + 1, jobs), 0.5),
            "dependency": some(np.array(["afterok:1"] * jobs), 0.9),
            "defaulted": some(np.array(["partition", "partition,qos"])[draw.integers(0, 2, jobs)], 0.6),
            "partition": some(np.array(["short", "long", "gpu"])[draw.integers(0, 3, jobs)], 0.05),
            "qos": some(np.array(["normal", "high"])[draw.integers(0, 2, jobs)]),
            "cpus_asked": some(2 ** draw.integers(0, 8, jobs)),
            "nodes_asked": some(draw.integers(1, 5, jobs)),
            "tasks_asked": some(draw.integers(1, 9, jobs)),
            "memory_asked": some(draw.integers(0, 5, jobs) << 30),
            "memory_per": some(np.array(["node", "cpu", "gpu"])[draw.integers(0, 3, jobs)]),
            "time_limit": some(draw.choice([600, 1800, 3600, 4_294_967_295], jobs)),
            "gpus_asked": some(draw.integers(0, 3, jobs), 0.7),
            "priority": some(draw.integers(1, 9999, jobs)),
            "nodes": some(np.array([f"n[{n}-{n + 2}]" for n in draw.integers(1, 20, jobs)])),
            "cpus_given": some(2 ** draw.integers(0, 8, jobs)),
            "nodes_given": some(draw.integers(1, 5, jobs)),
            "memory_given": some(draw.integers(1, 9, jobs) << 30),
            "start": start,
            "end": end,
            "suspended": some(draw.integers(0, 60, jobs), 0.9),
            "outcome": outcome,
            "max_memory": some(draw.integers(0, 9, jobs) << 28),
        },
        strict=False,
    )
    ended = pl.lit(pl.Series(~(pending | running)))
    frame = frame.with_columns(
        start=pl.when(pl.lit(pl.Series(~pending)) & (pl.col("outcome") != "cancelled")).then("start"),
        end=pl.when(ended).then("end"),
        outcome=pl.when(ended).then("outcome"),
    )
    frame = complete(frame).with_columns(
        seen_at=pl.coalesce("end", "start", "submit"), source=pl.lit("test"), reconstructed=pl.lit(True)
    )
    delay = pl.Series(draw.integers(0, 90, jobs))
    return frame.with_columns(known_at=pl.when(pl.col("outcome").is_not_null()).then(pl.col("end") + delay))
