"""Jobs for measuring stores: cheap to make, with the nulls, repeats and sizes of a Slurm site's records."""

from __future__ import annotations

import numpy as np
import polars as pl

from forewarn.job.columns import complete

BEGIN = 1_700_000_000
YEAR = 365 * 86_400


def jobs(first: int, count: int, total: int, seed: int = 1) -> pl.DataFrame:
    """Return `count` of `total` jobs that a cluster saw in a year, by submit, as one sacct record each."""
    chance = np.random.default_rng([seed, first])
    number = np.arange(first, first + count)
    drawn = pl.DataFrame(
        {
            "n": number,
            "submit": BEGIN + number * YEAR // total,
            "user": np.minimum(chance.zipf(1.5, count), 800),
            "app": chance.integers(0, 12, count),
            "case": chance.integers(0, 400, count),
            "cpus": 2 ** chance.integers(0, 8, count),
            "limit": chance.choice([1800, 3600, 14_400, 86_400, 172_800], count),
            "wait": chance.exponential(3000, count).astype(np.int64),
            "part": chance.random(count),
            "fails": chance.random(count) < 0.2,
            "in_array": chance.random(count) < 0.3,
            "node": chance.integers(1, 2000, count),
            "queue": chance.integers(0, 6, count),
            "memory": chance.integers(1 << 20, 1 << 36, count),
            "io": chance.integers(0, 1 << 34, count),
        }
    ).with_columns(
        start=pl.col("submit") + pl.col("wait"), run=(pl.col("limit") * pl.col("part")).cast(pl.Int64)
    )
    tres = pl.format("billing={},cpu={},mem={}G,node=1", "cpus", "cpus", pl.col("cpus") * 4)
    array = pl.col("n") // 50 * 50
    fails, has_gpu = pl.col("fails"), pl.col("queue") == 3
    return complete(
        drawn.select(
            cluster=pl.lit("alpha"),
            job_id=pl.when("in_array")
            .then(pl.format("{}_{}", array, pl.col("n") % 50))
            .otherwise(pl.format("{}", "n")),
            submit="submit",
            raw_id="n",
            user=pl.format("user{}", "user"),
            group=pl.format("group{}", pl.col("user") % 40),
            account=pl.format("account{}", pl.col("user") % 120),
            name=pl.format("app{}_run{}", "app", "case"),
            work_dir=pl.format("/scratch/user{}/project{}/case{}", "user", "app", "case"),
            submit_line=pl.format("sbatch --time={} -n {} run{}.sh", "limit", "cpus", "case"),
            array_job_id=pl.when("in_array").then(array),
            array_task_id=pl.when("in_array").then(pl.col("n") % 50),
            partition=pl.format("queue{}", "queue"),
            qos=pl.lit("normal"),
            constraint=pl.when(has_gpu).then(pl.lit("gpu")),
            nodes=pl.format("n{}", pl.col("node").cast(pl.String).str.zfill(4)),
            nodes_asked=pl.lit(1),
            tasks_asked="cpus",
            cpus_asked="cpus",
            memory_asked=pl.col("cpus") * (4 << 30),
            memory_per=pl.lit("node"),
            time_limit="limit",
            gpus_asked=pl.when(has_gpu).then(1),
            tres_asked=tres,
            priority=pl.col("wait") * 7,
            nodes_given=pl.lit(1),
            cpus_given="cpus",
            memory_given=pl.col("cpus") * (4 << 30),
            tres_given=tres,
            eligible="submit",
            start="start",
            end=pl.col("start") + pl.col("run"),
            suspended=pl.lit(0),
            restarts=pl.lit(0),
            state=pl.when(fails).then(pl.lit("FAILED")).otherwise(pl.lit("COMPLETED")),
            outcome=pl.when(fails).then(pl.lit("failed")).otherwise(pl.lit("completed")),
            exit_code=fails.cast(pl.Int64),
            exit_signal=pl.lit(0),
            derived_exit_code=pl.lit(0),
            cpu_time=pl.col("run") * pl.col("part") * pl.col("cpus"),
            max_memory="memory",
            io_read="io",
            io_written=pl.col("io") // 3,
            energy=pl.when(pl.col("queue") < 3).then(pl.col("run") * 200),
            seen_at=pl.col("start") + pl.col("run"),
            source=pl.lit("sacct"),
            reconstructed=pl.lit(True),
        )
    )
