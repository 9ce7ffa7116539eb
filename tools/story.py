"""The demo's story from the simulator's hidden truth: a job about to fail, before and after advice.

    python tools/story.py begin FOLDER     history up to a moment, and the script of a job about to fail
    python tools/story.py follow FOLDER    what becomes of that job as it was, and with the advised script

FOLDER holds `jobs.parquet` and its truth, as `forewarn simulate` wrote them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import polars as pl

from forewarn.formatting import duration
from forewarn.job.columns import to_records
from forewarn.job.record import Job
from forewarn.job.sbatch.script import read_script
from forewarn.job.units import format_duration, format_memory
from forewarn.sources.simulator.truth import replay

RECENT = 0.9  # of the history is known when the job is submitted


def begin(folder: Path) -> None:
    """Choose the job, keep what had been seen before its submit, and write its script."""
    seen = pl.read_parquet(folder / "jobs.parquet")
    truth = pl.read_parquet(folder / "jobs.parquet.truth.parquet")
    job = chosen(seen, truth)
    # As Slurm's records are: it does not know what the program is.
    before = seen.filter(pl.col("seen_at") < job.submit).with_columns(application=None, script_hash=None)
    before.write_parquet(folder / "before.parquet")
    (folder / "solver").write_text("#!/bin/sh\necho solving\n")
    (folder / "solver").chmod(0o755)
    (folder / "job.sbatch").write_text(script_of(job))
    story = {"job_id": job.job_id, "submit": job.submit, "user": job.user, "cluster": job.cluster}
    failed = seen.filter((pl.col("outcome") == "out_of_memory") & (pl.col("seen_at") < job.submit))
    story["failed"] = failed.filter(pl.col("user") == job.user).tail(1)["job_id"].item()
    (folder / "story.json").write_text(json.dumps(story))
    for name, value in story.items():
        print(f"STORY_{name.upper()}={value}")


def chosen(seen: pl.DataFrame, truth: pl.DataFrame) -> Job:
    """Choose the first job of the last part that runs out of memory though its user has run many like it."""
    asked = seen.group_by("job_id", "submit", maintain_order=True).first()
    jobs = asked.join(truth.drop("cluster"), on=["job_id", "submit"]).sort("submit")
    jobs = jobs.with_columns(before=pl.int_range(pl.len()).over("user", "name"))
    late = pl.col("submit") > jobs["submit"].quantile(RECENT)
    fits = (
        (pl.col("cause") == "memory")
        & pl.col("completes_if_given")
        & pl.col("array_job_id").is_null()
        & (pl.col("nodes_asked") == 1)
        & (pl.col("before") >= 20)
    )
    found = jobs.filter(late & fits)
    if found.is_empty():
        sys.exit("no job of this history makes a story: take another seed")
    return next(to_records(found.head(1).select(asked.columns), Job))


def script_of(job: Job) -> str:
    """Return the job's script as its user might have written it."""
    memory = "mem-per-cpu" if job.memory_per == "cpu" else "mem"
    options = {
        "job-name": job.name,
        "partition": job.partition,
        "nodes": job.nodes_asked,
        "ntasks": job.tasks_asked,
        "cpus-per-task": (job.cpus_asked or 1) // (job.tasks_asked or 1),
        memory: format_memory(job.memory_asked) if job.memory_asked is not None else None,
        "time": format_duration(job.time_limit) if job.time_limit is not None else None,
    }
    lines = [f"#SBATCH --{name}={value}" for name, value in options.items() if value is not None]
    return "\n".join(["#!/bin/bash", *lines, "", "srun ./solver", ""])


def follow(folder: Path) -> None:
    """Ask the truth."""
    story = json.loads((folder / "story.json").read_text())
    truth = pl.read_parquet(folder / "jobs.parquet.truth.parquet")
    same = (pl.col("job_id") == story["job_id"]) & (pl.col("submit") == story["submit"])
    true = truth.filter(same).to_dicts()[0]
    for name in ("job.sbatch", "job.fixed.sbatch"):
        if (folder / name).exists():
            print(f"  {name:18}{became(true, (folder / name).read_text())}")


def became(true: dict[str, Any], script: str) -> str:
    """Return the outcome of the job with a script's request."""
    job = read_script(script).job("", None, 0)
    memory = job.memory_asked
    if memory is not None and job.memory_per == "cpu":
        memory *= true["had_cpus"]
    ending = replay(true, memory=memory, time_limit=job.time_limit)
    ran = f" after {duration(ending.run_time)}" if ending.run_time is not None else ""
    return f"{ending.outcome}{ran}"


if __name__ == "__main__":
    {"begin": begin, "follow": follow}[sys.argv[1]](Path(sys.argv[2]))
