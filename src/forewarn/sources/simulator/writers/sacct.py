"""`sacct -P` text with its header: a line for each job, then one for each of its steps.

Times are the cluster's with their offset, as `SLURM_TIME_FORMAT=%Y-%m-%dT%H:%M:%S%z` makes sacct print
them: without it the hour that a clock goes through twice could not be read back. As in the real thing,
memory asked is shown as the whole job's, and what a job asked while it waited is gone.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import polars as pl

from forewarn.sources.simulator.scenario import Scenario
from forewarn.sources.simulator.writers.base import TextWriter
from forewarn.sources.simulator.writers.text import clock, duration, fine_duration, gid, uid

_USAGE = ("TotalCPU", "MaxRSS", "TRESUsageInTot", "TRESUsageOutTot", "NTasks", "ConsumedEnergyRaw")


def _job(zone: str) -> dict[str, pl.Expr]:
    elapsed = (pl.col("end") - pl.col("start")).fill_null(0)
    state = pl.concat_str("state", pl.lit(" by "), uid("cancelled_by"))
    return {
        "JobID": pl.col("job_id"),
        "JobIDRaw": pl.col("raw_id"),
        "Cluster": pl.col("cluster"),
        "User": pl.col("user"),
        "UID": uid(),
        "Group": pl.col("group"),
        "GID": gid(),
        "Account": pl.col("account"),
        "JobName": pl.col("name"),
        "WorkDir": pl.col("work_dir"),
        "SubmitLine": pl.col("submit_line"),
        "Partition": pl.col("partition"),
        "QOS": pl.col("qos"),
        "NodeList": pl.col("nodes").fill_null("None assigned"),
        "ReqNodes": pl.col("nodes_asked"),
        "ReqCPUS": pl.col("cpus_asked"),
        "ReqMem": pl.col("tres_asked").str.extract(r"\bmem=([^,]+)"),
        "ReqTRES": pl.col("tres_asked"),
        "Timelimit": duration(pl.col("time_limit")),
        "Priority": pl.col("priority"),
        "AllocNodes": pl.col("nodes_given").fill_null(0),
        "AllocCPUS": pl.col("cpus_given").fill_null(0),
        "AllocTRES": pl.col("tres_given"),
        "Submit": clock("submit", zone),
        "Eligible": clock("eligible", zone),
        "Start": clock("start", zone),
        "End": clock("end", zone),
        "Elapsed": duration(elapsed),
        "ElapsedRaw": elapsed,
        "Suspended": duration(pl.col("suspended")),
        "Restarts": pl.col("restarts"),
        "State": pl.coalesce(state, "state"),
        "Reason": pl.lit("None"),
        # As sacct prints them: it takes 128 off every code from there on.
        "ExitCode": pl.concat_str(pl.col("exit_code") % 128, "exit_signal", separator=":"),
        "DerivedExitCode": pl.concat_str(pl.col("derived_exit_code") % 128, pl.lit(":0")),
        **dict.fromkeys(_USAGE, pl.lit(None, pl.String)),
        "TotalCPU": fine_duration(pl.col("cpu_time").fill_null(0.0)),
        "ConsumedEnergyRaw": pl.col("energy").fill_null(0),
    }


def _disk(name: str) -> pl.Expr:
    return pl.concat_str(pl.lit("fs/disk="), name)


def _step(job: dict[str, pl.Expr], name: str, **own: pl.Expr) -> pl.Expr:
    """Write a step's line: the job's value where a step has it too, empty where sacct prints nothing."""
    same = ("Cluster", "Account", "AllocCPUS", "AllocTRES", "Start", "End", "Elapsed", "ElapsedRaw")
    line = {
        **dict.fromkeys(job, pl.lit("")),
        **{field: job[field] for field in same},
        "JobID": pl.concat_str("job_id", pl.lit(f".{name}")),
        "JobIDRaw": pl.concat_str("raw_id", pl.lit(f".{name}")),
        "JobName": pl.lit(name),
        "NodeList": job["NodeList"],
        "AllocNodes": job["AllocNodes"],
        "Submit": job["Start"],
        "Eligible": job["Start"],
        "State": pl.lit("COMPLETED"),
        "ExitCode": pl.lit("0:0"),
        **own,
    }
    return pl.when(pl.col("start").is_not_null()).then(_row(line))


def _row(fields: dict[str, pl.Expr]) -> pl.Expr:
    return pl.concat_str([value.cast(pl.String).fill_null("") for value in fields.values()], separator="|")


def _steps(job: dict[str, pl.Expr]) -> list[pl.Expr]:
    # A cancelled or timed-out script is ended by SIGTERM; its step says so, the job does not.
    killed = pl.col("state").is_in(["TIMEOUT", "CANCELLED", "PREEMPTED"])
    batch = _step(
        job,
        "batch",
        State=pl.when(killed).then(pl.lit("CANCELLED")).otherwise(pl.col("state")),
        ExitCode=pl.when(killed).then(pl.lit("0:15")).otherwise(job["ExitCode"]),
        TotalCPU=fine_duration(pl.col("cpu_time")),
        MaxRSS=pl.concat_str(pl.col("max_memory") // 1024, pl.lit("K")),
        TRESUsageInTot=_disk("io_read"),
        TRESUsageOutTot=_disk("io_written"),
        NTasks=pl.lit(1),
        ConsumedEnergyRaw=pl.col("energy"),
    )
    extern = _step(job, "extern", TotalCPU=pl.lit("00:00:00"), NTasks=pl.lit(1))
    return [batch, extern]


class SacctWriter(TextWriter):
    """The text that `sacct -P` prints; without steps, as `sacct -X` does."""

    name: ClassVar[str] = "sacct"

    def __init__(self, path: Path, scenario: Scenario, *, steps: bool = True) -> None:
        super().__init__(path, scenario)
        job = _job(scenario.cluster.timezone)
        self._header = "|".join(job) + "\n"
        self._lines = [_row(job), *(_steps(job) if steps else ())]

    def head(self) -> str:
        """Return the names of the fields."""
        return self._header

    def body(self, frame: pl.DataFrame) -> pl.Series:
        """Return a job's line and those of its steps."""
        return frame.select(pl.concat_str(self._lines, separator="\n", ignore_nulls=True)).to_series()
