"""Conversion of folded sacct rows to the columns of a job's record."""

from __future__ import annotations

from collections.abc import Mapping, Set
from types import MappingProxyType

import polars as pl

from forewarn.job.columns import JOB_SCHEMA, last_proven_time
from forewarn.sources.sacct.fields import MEMORY
from forewarn.sources.slurm import unit_columns as units

col = pl.col

# The columns of `fold_rows` beside the record's own.
_FOLDED_COLUMNS: Mapping[str, pl.DataType | type[pl.DataType]] = MappingProxyType(
    {
        **dict.fromkeys(("_id", "_raw_id", "_state", "_qos_asked", "_steps_outcome"), pl.String),
        **dict.fromkeys(("UID", "Timelimit", "TimelimitRaw", "Start", "End"), pl.String),
        **dict.fromkeys(("ExitCode", "DerivedExitCode"), pl.String),
        **dict.fromkeys(("_tres_asked", "_tres_given"), units.TRES),
        "_memory_asked": MEMORY,
        **dict.fromkeys(("_elapsed", "_steps", "_steps_memory"), pl.Int64),
        **dict.fromkeys(("_steps_cpu", "_steps_energy"), pl.Float64),
    }
)
_NOWHERE = "None assigned"  # sacct's node list of a job that never ran

# Options of sbatch, srun and salloc by the field that they set.
_OPTION_PATTERNS: Mapping[str, str] = MappingProxyType(
    {
        "account": r"\s(?:-A|--account)",
        "partition": r"\s(?:-p|--partition)",
        "qos": r"\s(?:-q|--qos)",
        "nodes_asked": r"\s(?:-N|--nodes)",
        "cpus_asked": r"\s(?:-n|-c|--ntasks|--cpus)",
        "memory_asked": r"\s--mem",
        "time_limit": r"\s(?:-t|--time)",
    }
)


def job_columns(jobs: pl.DataFrame, fields: Set[str], *, cluster: str, zone: str) -> pl.DataFrame:
    """Build the columns of a job's record (and `line`) from folded rows of a file with these fields."""
    jobs = jobs.with_columns(
        pl.lit(None, dtype).alias(name)
        for name, dtype in {**JOB_SCHEMA, **_FOLDED_COLUMNS}.items()
        if name not in jobs.columns
    )
    jobs = jobs.with_columns(
        state=col("_state").str.extract(r"^([^\s+]+)"), cancelled_by=_cancelled_by()
    ).with_columns(outcome=units.outcome(col("state")))
    jobs = jobs.with_columns(
        outcome=units.exact_outcome(
            col("outcome"),
            col("_steps_outcome"),
            units.exit_signal(col("ExitCode")),
            units.exit_signal(col("DerivedExitCode")),
        )
    )
    jobs = _with_times(_fix_repeated_hours(jobs, zone), fields)
    jobs = jobs.with_columns(
        cluster=pl.coalesce("cluster", pl.lit(cluster)), **_ids(), **_requested(), **_allocated()
    )
    jobs = jobs.with_columns(**_requested_memory(), **_ended(), **_used())
    return jobs.with_columns(defaulted=_defaulted(jobs, fields)).select("line", *JOB_SCHEMA)


# --- when ----------------------------------------------------------------------------------------


def _fix_repeated_hours(jobs: pl.DataFrame, zone: str) -> pl.DataFrame:
    """Read times that would come too early, in the hour that a clock repeats, as the second of both."""
    for earlier, later, text in (("submit", "start", "Start"), ("start", "end", "End")):
        early = col(later) < col(earlier)
        if zone != "UTC" and jobs.select(early.any()).item():
            second = units.moment(col(text), zone, ambiguous="latest")
            jobs = jobs.with_columns(pl.when(early).then(second).otherwise(later).alias(later))
    return jobs


def _with_times(jobs: pl.DataFrame, fields: Set[str]) -> pl.DataFrame:
    """Fill in missing times that follow from others, and drop those that lie in the future."""
    busy = col("_elapsed") + col("suspended").fill_null(0)  # sacct counts Elapsed without suspension
    ended = col("outcome").is_not_null() if "State" in fields else pl.lit(True)
    if "Start" not in fields:
        jobs = jobs.with_columns(start=pl.when(ended & (busy > 0)).then(col("end") - busy))
    jobs = jobs.with_columns(end=pl.when(ended).then(pl.coalesce("end", col("start") + busy)))
    if "Submit" not in fields:
        jobs = jobs.with_columns(submit=pl.coalesce("eligible", "start"))
    if "State" not in fields:
        jobs = jobs.with_columns(outcome=pl.when(col("end").is_not_null()).then(pl.lit("unknown")))
    # A job that was cancelled while pending has its end as its start, but no node.
    never_ran = (
        (col("state") == "PENDING") | (col("nodes") == _NOWHERE) | (col("nodes_given") == 0)
    ).fill_null(False)
    jobs = jobs.with_columns(
        start=pl.when(~never_ran).then("start"), nodes=pl.when(col("nodes") != _NOWHERE).then("nodes")
    )
    # A job that never ran was never suspended: sacct shows 0 for it.
    jobs = jobs.with_columns(suspended=pl.when(col("start").is_not_null()).then("suspended"))
    # `--begin` may be in the future; a start proves that it has passed, an end before it that it never did.
    proven = pl.min_horizontal(last_proven_time(), "end")
    return jobs.with_columns(eligible=pl.when(col("eligible") <= proven).then("eligible"))


# --- who cancelled -------------------------------------------------------------------------------


def _cancelled_by() -> pl.Expr:
    """Read who cancelled the job: sacct shows a number, named where that is certain (own user, root)."""
    number = col("_state").str.extract(r"\bby (\S+)")
    own = number == col("UID")
    return pl.when(own).then("user").when(number == "0").then(pl.lit("root")).otherwise(number)


# --- the rest ------------------------------------------------------------------------------------


def _number(text: pl.Expr, pattern: str) -> pl.Expr:
    return text.str.extract(pattern).cast(pl.Int64, strict=False)


def _ids() -> dict[str, pl.Expr]:
    name = pl.coalesce("_id", "_raw_id")
    return {
        "job_id": name,
        # Only JobIDRaw has an array task's own number.
        "raw_id": _number(pl.coalesce("_raw_id", "_id"), r"^([0-9]+)$"),
        "array_job_id": _number(name, r"^([0-9]+)_"),
        "array_task_id": _number(name, r"_([0-9]+)$"),
        "array_tasks": name.str.extract(r"_\[([^\]]+)\]$"),
        "het_job_id": _number(name, r"^([0-9]+)\+"),
        "het_offset": _number(name, r"\+([0-9]+)$"),
    }


def _counted(*counts: str | pl.Expr) -> pl.Expr:
    """Return the first count that is present; 0 nodes or CPUs is how sacct shows an unknown number."""
    return pl.coalesce(counts).replace(0, None)


def _requested() -> dict[str, pl.Expr]:
    tres = col("_tres_asked").struct
    return {
        "nodes_asked": _counted("nodes_asked", tres.field("node")),
        "cpus_asked": _counted("cpus_asked", tres.field("cpu")),
        "gpus_asked": tres.field("gpu"),
        "tres_asked": tres.field("text"),
    }


def _allocated() -> dict[str, pl.Expr]:
    tres = col("_tres_given").struct
    ran = col("start").is_not_null()
    allocated = {
        "nodes_given": _counted("nodes_given", tres.field("node")),
        "cpus_given": _counted("cpus_given", tres.field("cpu")),
        "memory_given": tres.field("mem"),
        "gpus_given": tres.field("gpu"),
        "tres_given": tres.field("text"),
    }
    return {name: pl.when(ran).then(count) for name, count in allocated.items()}


def _requested_memory() -> dict[str, pl.Expr]:
    """Read the requested memory; before 21.08 ReqMem ends with what it is per (``4Gn``, ``4000Mc``).

    Since then it is the memory of the whole job (mem in ReqTRES), whether requested by --mem or
    --mem-per-cpu: it is converted to per node, as --mem would have requested it.
    """
    per = col("_memory_asked").struct.field("per")
    whole = pl.coalesce(col("_memory_asked").struct.field("bytes"), col("_tres_asked").struct.field("mem"))
    shared = per.is_null() & (col("nodes_asked") > 0).fill_null(False)
    return {
        "memory_asked": pl.when(shared).then(whole // col("nodes_asked")).otherwise(whole),
        "memory_per": pl.when(shared & whole.is_not_null()).then(pl.lit("node")).otherwise(per),
    }


def _ended() -> dict[str, pl.Expr]:
    """Drop the exit code of a job that has not ended: sacct shows a meaningless 0:0."""
    ended = col("outcome").is_not_null()
    return {
        "exit_code": pl.when(ended).then("exit_code"),
        "exit_signal": pl.when(ended).then(units.exit_signal(col("ExitCode"))),
        "derived_exit_code": pl.when(ended).then("derived_exit_code"),
    }


def _used() -> dict[str, pl.Expr]:
    """Read the resources used; with -X, and before a step has ended, sacct shows 0 for unknown values."""
    measured = col("outcome").is_not_null() & (col("_steps") > 0).fill_null(False)
    return {
        "cpu_time": pl.when((col("cpu_time") > 0) | measured).then(
            pl.max_horizontal("cpu_time", "_steps_cpu")
        ),
        "max_memory": pl.max_horizontal("max_memory", "_steps_memory").replace(0, None),
        # Where energy is not measured, sacct shows 0.
        "energy": pl.max_horizontal("energy", "_steps_energy").cast(pl.Int64).replace(0, None),
        "io_read": col("io_read").cast(pl.Int64),
        "io_written": col("io_written").cast(pl.Int64),
    }


def _defaulted(jobs: pl.DataFrame, fields: Set[str]) -> pl.Expr:
    """List the fields that the user left to the site, as far as accounting shows it.

    Accounting does not keep the options of a batch script. But srun, salloc and --wrap have no script: what
    is not on their line was not requested (the environment aside: SBATCH_TIMELIMIT, …).
    """
    line = col("submit_line")
    no_script = line.str.contains(r"^\S*(?:srun|salloc)\s|\s--wrap[=\s]")
    left: dict[str, pl.Expr] = {}
    if jobs.select(no_script.any()).item():
        left = {name: no_script & ~line.str.contains(options) for name, options in _OPTION_PATTERNS.items()}
    limit = pl.coalesce("Timelimit", "TimelimitRaw") == "Partition_Limit"
    left["time_limit"] = limit | left.get("time_limit", pl.lit(False))
    if "QOSREQ" in fields:
        left["qos"] = col("_qos_asked").is_null()
    names = [pl.when(left[name]).then(pl.lit(name)) for name in JOB_SCHEMA if name in left]
    return pl.concat_str(names, separator=",", ignore_nulls=True).replace("", None)
