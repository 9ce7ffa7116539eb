"""Folding of rows into jobs: fields are read, and steps are added to the job that they follow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import polars as pl

from forewarn.job.step_outcomes import EXACT_STATES, StepEnd, outcome_of_steps
from forewarn.sources.sacct.fields import FIELDS, JOB_ID, NODES
from forewarn.sources.slurm import unit_columns as units

# Texts needed beside their value: the user id (for who cancelled a job), a limit left to the partition, the
# signals beside the exit codes, and local times in the hour that a clock repeats.
_KEPT_TEXTS = ("UID", "Timelimit", "TimelimitRaw", "ExitCode", "DerivedExitCode", "Start", "End")
# Texts in place of a number that mean that there is none: no limit, and INFINITE64 as ``16?``.
_NO_NUMBER = r"(?i)^(?:UNLIMITED|INFINITE|[0-9.]+\?[cn]?)$"
# The fields that are read of a step's row.
_OF_STEPS = (
    *("TotalCPU", "MaxRSS", "NTasks", "ConsumedEnergyRaw", "ConsumedEnergy"),
    *("TRESUsageInTot", "TRESUsageOutTot", "AveDiskRead", "AveDiskWrite", "MaxDiskRead", "MaxDiskWrite"),
)


@dataclass(frozen=True, slots=True)
class UnreadableRow:
    """A row that cannot be read, and why."""

    line: int
    field: str
    reason: str
    text: str


def fold_rows(rows: pl.DataFrame, zone: str) -> tuple[pl.DataFrame, list[UnreadableRow]]:
    """Fold rows of text (columns named by sacct's fields, and `line`) into one row for each job.

    A job's steps follow its own row, all of them in this frame. The result has the columns that the table
    of fields names, as far as they hold anything, the texts of `_KEPT_TEXTS`, and the resources used and the
    outcome shown by the steps.
    """
    rows, strays = _with_ids(rows)
    is_step = rows["_is_step"]
    jobs, unread = _read(rows.filter(~is_step) if is_step.any() else rows, zone, list(FIELDS))
    if not is_step.any():
        return jobs, strays + unread
    steps, unread_steps = _read(rows.filter(is_step), zone, _OF_STEPS)
    for of_steps in (_used_by_steps(steps), _outcomes_of_steps(rows, zone)):
        jobs = jobs.join(of_steps, on="_job", how="left", maintain_order="left")
    return jobs, strays + unread + unread_steps


def _with_ids(rows: pl.DataFrame) -> tuple[pl.DataFrame, list[UnreadableRow]]:
    """Mark which rows are steps (`_is_step`) and of which job (`_job`); separate rows that are neither."""
    field = "JobID" if "JobID" in rows.columns else "JobIDRaw"
    name = pl.col(field).str.strip_chars().fill_null("")
    rows = rows.with_columns(name.alias(field), _is_step=name.str.contains(".", literal=True))
    rows = rows.with_columns(_job=(~pl.col("_is_step")).cum_sum())
    wrong: pl.Expr = pl.when(~pl.col(field).str.contains(rf"^{JOB_ID}(?:\..+)?$")).then(
        pl.lit("not a job id")
    )
    if rows["_is_step"].any():
        job = pl.when(~pl.col("_is_step")).then(pl.col(field) + ".").forward_fill()
        stray = pl.col("_is_step") & ~pl.col(field).str.starts_with(job).fill_null(False)
        alone = pl.when(stray).then(pl.lit("a step without its job's row before it"))
        wrong = pl.coalesce(wrong, alone)
    rows = rows.with_columns(_wrong=wrong)
    bad = [
        UnreadableRow(line, field, f"{why}: {text!r}", text)
        for line, why, text in rows.filter(pl.col("_wrong").is_not_null())
        .select("line", "_wrong", field)
        .iter_rows()
    ]
    return (rows.filter(pl.col("_wrong").is_null()) if bad else rows).drop("_wrong"), bad


def _read(rows: pl.DataFrame, zone: str, names: Sequence[str]) -> tuple[pl.DataFrame, list[UnreadableRow]]:
    """Convert these fields to typed columns; separate rows with an unreadable one."""
    values = {
        name: field.read(pl.col(name)) if field.read else units.moment(pl.col(name), zone)
        for name in names
        if (field := FIELDS[name]).column and name in rows.columns and rows[name].null_count() < rows.height
    }
    typed = rows.select("line", **values)
    types = typed.schema
    suspects = [
        name
        for name in values
        if (types[name] != pl.String or FIELDS[name].form is NODES)
        and typed[name].null_count() > rows[name].null_count()
    ]
    bad: list[UnreadableRow] = []
    if suspects:
        marks = rows.select(
            pl.coalesce(
                pl.when(_unreadable(name, typed[name].is_null())).then(pl.lit(name)) for name in suspects
            ).alias("_wrong")
        ).to_series()
        bad = [
            UnreadableRow(row["line"], name, _why(name, row[name], zone), row[name])
            for name, row in zip(
                marks.drop_nulls(), rows.filter(marks.is_not_null()).iter_rows(named=True), strict=True
            )
        ]
        rows, typed = rows.filter(marks.is_null()), typed.filter(marks.is_null())
    columns: dict[str, list[str]] = {}
    for name in values:
        columns.setdefault(str(FIELDS[name].column), []).append(name)
    texts = [name for name in _KEPT_TEXTS if name in rows.columns]
    merged = (pl.coalesce(names).alias(column) for column, names in columns.items())
    return typed.select("line", *merged).hstack(rows.select("_job", *texts)), bad


def _unreadable(name: str, nothing: pl.Series) -> pl.Expr:
    """Select rows whose text holds something that could not be read."""
    text = units.present(pl.when(nothing).then(name))
    if FIELDS[name].partial:
        return ~units.map_distinct(text, FIELDS[name].form.fits, pl.Boolean).fill_null(True)
    return ~text.str.contains(_NO_NUMBER).fill_null(True)


def _why(name: str, text: str, zone: str) -> str:
    if FIELDS[name].is_time:
        try:
            datetime.fromisoformat(text.strip())
        except ValueError:
            return f"not a time: {text!r}"
        return f"no such time in {zone}: {text!r}; is that the cluster's zone?"
    return f"cannot be read: {text!r}"


def _used_by_steps(steps: pl.DataFrame) -> pl.DataFrame:
    """Sum the resources used by the steps of each job; max_memory is that of the largest task of any step."""

    def present(*columns: str) -> list[pl.Expr]:
        return [pl.col(name) for name in columns if name in steps.columns]

    def total(name: str, amounts: list[pl.Expr]) -> pl.Expr:
        amount = pl.coalesce([*amounts, pl.lit(None, pl.Float64)])
        return pl.when(amount.count() > 0).then(amount.sum()).alias(name)

    tasks = [name.fill_null(1) for name in present("_tasks")] or [pl.lit(1)]
    disk = {
        f"io_{way}": present(f"_{way}_total")
        + [mean.cast(pl.Float64) * tasks[0] for mean in present(f"_{way}_mean")]
        + present(f"_{way}_max")
        for way in ("read", "written")
    }
    return steps.group_by("_job").agg(
        pl.len().alias("_steps"),
        pl.max_horizontal([*present("max_memory"), pl.lit(None, pl.Int64)]).max().alias("_steps_memory"),
        total("_steps_cpu", present("cpu_time")),
        total("_steps_energy", present("energy")),
        *(total(name, amounts) for name, amounts in disk.items()),
    )


def _outcomes_of_steps(rows: pl.DataFrame, zone: str) -> pl.DataFrame:
    """Find the outcome of failed jobs whose steps show it: see `outcome_of_steps`. These are few."""
    found = pl.DataFrame(schema={"_job": rows.schema["_job"], "_steps_outcome": pl.String})
    if "State" not in rows.columns:
        return found
    field = "JobID" if "JobID" in rows.columns else "JobIDRaw"
    state = pl.col("State").str.strip_chars().str.extract(r"^(\w+)")
    failed = rows.filter(~pl.col("_is_step") & (state == "FAILED"))
    exact = rows.filter("_is_step", state.is_in(list(EXACT_STATES))).join(failed, on="_job", how="semi")
    times = {
        name.lower(): units.moment(pl.col(name), zone) if name in rows.columns else pl.lit(None, pl.Int64)
        for name in ("Start", "End")
    }
    steps: dict[int, list[StepEnd]] = {}
    chosen = rows.filter("_is_step").join(exact, on="_job", how="semi", maintain_order="left")
    for job, *step in chosen.select(
        "_job", name=pl.col(field).str.extract(r"\.([^.]+)$"), state=state, **times
    ).iter_rows():
        steps.setdefault(job, []).append(StepEnd(*step))
    outcomes = {
        job: outcome for job, some in steps.items() if (outcome := outcome_of_steps(some)) is not None
    }
    return pl.DataFrame(
        {"_job": list(outcomes), "_steps_outcome": map(str, outcomes.values())}, schema=found.schema
    )
