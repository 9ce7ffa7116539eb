"""The programs that a user's earlier jobs of a name ran, as known at a moment.

XALT records which programs a job ran, and when. Of the job itself that is never a feature: it becomes known
after the submit, and only of jobs that start. What the user's *earlier* jobs of the same name ran is known by
then, and most likely it is what this one will run. So it identifies the script where nothing else does
(`inputs.py`), and with it anyone's history with that program.

Once for a frame of jobs and once for one job, side by side; a test holds them equal.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import polars as pl

from forewarn.features.keys import normalised, normalised_column
from forewarn.job.record import Job
from forewarn.store.base import Store
from forewarn.store.filters import Missing, OneOf

PROGRAM = "program"  # the column that frames of jobs get
_JOB = ("job_id", "submit")
_RUN = ("run_id", "job_id", "application", "tasks", "start", "end")
_SCHEMA = {"whose": pl.String(), "known": pl.Int64(), PROGRAM: pl.String()}


@dataclass(frozen=True)
class EarlierPrograms:
    """The programs of a cluster's jobs, by user and job name."""

    revision: int = 0  # of the store's program runs; 0 where there are none
    history: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=_SCHEMA))
    unmatched: Mapping[str, int] = field(default_factory=dict)  # jobs that the store lacks: their last run

    @classmethod
    def read(cls, store: Store, cluster: str) -> EarlierPrograms:
        """Read them from the store; costs nothing if it has no program runs."""
        revision = store.revision("program", cluster=cluster)
        if not revision:
            return cls()
        frames = list(store.scan("program", cluster=cluster, columns=_RUN))
        if not frames:  # all were deleted
            return cls(revision)
        runs = pl.concat(frames)
        return cls(revision, *_history(runs, _jobs(store, cluster, runs["job_id"].unique())))

    def with_column(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Add to jobs (user, name, submit) the program of their predecessors as of their submit."""
        if self.history.is_empty():
            return frame
        asked = frame.select("submit", whose=_whose()).with_row_index("_place")
        found = asked.sort("submit").join_asof(
            self.history,
            left_on="submit",
            right_on="known",
            by="whose",
            strategy="backward",
            allow_exact_matches=False,
            check_sortedness=False,
        )
        return frame.with_columns(found.sort("_place")[PROGRAM])

    def of(self, job: Job) -> str | None:
        """Return the program of one job's predecessors."""
        if job.user is None or job.name is None or self.history.is_empty():
            return None
        known, programs = self._by_whose.get(f"{job.user}\n{normalised(job.name)}", ((), ()))
        place = bisect_left(known, job.submit)
        return programs[place - 1] if place else None

    def awaits(self, job: Job) -> bool:
        """Check for runs of this job, which was not in the store when they were read."""
        last = self.unmatched.get(job.job_id if job.raw_id is None else str(job.raw_id))
        return last is not None and job.submit <= last and (job.end is None or last <= job.end)

    @cached_property
    def _by_whose(self) -> dict[str, tuple[list[int], list[str]]]:
        grouped = self.history.group_by("whose", maintain_order=True).agg("known", PROGRAM)
        return {whose: (known, programs) for whose, known, programs in grouped.iter_rows()}


def _whose() -> pl.Expr:
    """Build the user and name of a job as one text; null if one is."""
    return pl.concat_str("user", normalised_column(pl.col("name")), separator="\n")


def _jobs(store: Store, cluster: str, numbers: pl.Series) -> pl.DataFrame:
    """Read the jobs with these Slurm ids, each with its end and its name at submit."""
    number = pl.coalesce(pl.col("raw_id").cast(pl.String), "job_id")
    columns = [*_JOB, "raw_id", "end"]
    # Where Slurm's own number is not known, the id is that number.
    texts = tuple(numbers.drop_nulls())
    of_number = OneOf("raw_id", tuple(int(text) for text in texts if text.isdecimal() and len(text) < 19))
    wanted = of_number | (Missing("raw_id") & OneOf("job_id", texts))
    ends = [
        frame.select(*_JOB, "end", number=number)
        for frame in store.scan(cluster=cluster, columns=columns, where=wanted)
    ]
    schema = {"job_id": pl.String(), "submit": pl.Int64(), "end": pl.Int64(), "number": pl.String()}
    jobs = pl.concat([pl.DataFrame(schema=schema), *ends])
    named = [
        frame.select(*_JOB, whose=_whose())
        for frame in store.scan(
            view="submit",
            cluster=cluster,
            columns=[*_JOB, "user", "name"],
            where=OneOf("job_id", tuple(jobs["job_id"].unique())),
        )
    ]
    names = {"job_id": pl.String(), "submit": pl.Int64(), "whose": pl.String()}
    jobs = jobs.join(pl.concat([pl.DataFrame(schema=names), *named]), on=_JOB, how="left")
    return jobs.sort("submit").select("number", "submit", "whose", job_end="end").with_row_index("job")


def _history(runs: pl.DataFrame, jobs: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, int]]:
    """Return from when each user's jobs of a name have run which program, and runs of unknown jobs.

    Job ids wrap: a run is of the last job with its number that was submitted before it and had not ended. A
    job's program is the one that it had spent most time in by then, over all its tasks.
    """
    matched = runs.sort("start").join_asof(
        jobs,
        left_on="start",
        right_on="submit",
        by_left="job_id",
        by_right="number",
        strategy="backward",
        check_sortedness=False,
    )
    ended_before = (pl.col("job_end") < pl.col("start")).fill_null(False)
    is_its = pl.col("job").is_not_null() & ~ended_before
    lacking = matched.filter(~is_its).group_by("job_id").agg(pl.col("start").max())
    spent = (pl.col("end") - pl.col("start")).fill_null(0) * pl.col("tasks").fill_null(1)
    total, most = pl.col("total"), pl.col("total").cum_max().shift().over("job")
    history = (
        matched.filter(is_its, pl.col("application").is_not_null(), pl.col("whose").is_not_null())
        .select(
            "job", "whose", "application", "start", "run_id", spent=spent, known=pl.coalesce("end", "start")
        )
        .sort("known", "start", "run_id")
        .with_columns(total=pl.col("spent").cum_sum().over("job", "application"))
        # The lead changes where a program's total passes all totals before it: totals only grow.
        .with_columns(lead=pl.when((total > most).fill_null(True)).then("application"))
        .with_columns(pl.col("lead").forward_fill().over("job"))
        .unique(["whose", "known"], keep="last", maintain_order=True)
    )
    return history.select("whose", "known", pl.col("lead").alias(PROGRAM)), dict(lacking.iter_rows())
