"""Design rule 1: a feature as of t is the same whatever happened after t."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from forewarn.features.batch import inputs_of
from forewarn.features.table import feature_frames
from forewarn.job.outcomes import POLICIES
from forewarn.sources.base import open_source
from forewarn.store.base import ClusterFacts
from tests.features.histories import history

pytestmark = pytest.mark.slow

Table = Callable[[pl.DataFrame], pl.DataFrame]  # jobs to one row a job, with job_id, submit and features


def at_submit(jobs: pl.DataFrame) -> pl.DataFrame:
    inputs = inputs_of([{"submit": jobs, "now": jobs}], ClusterFacts("US/Eastern"), POLICIES["papers"])
    return pl.concat(feature_frames(inputs, "submit", "generic"))


def at_start(jobs: pl.DataFrame) -> pl.DataFrame:
    inputs = inputs_of(
        [dict.fromkeys(("submit", "start", "now"), jobs)], ClusterFacts("US/Eastern"), POLICIES["papers"]
    )
    return pl.concat(feature_frames(inputs, "start", "generic"))


def rewritten(jobs: pl.DataFrame, t: int, seed: int) -> pl.DataFrame:
    """Another future: every start, end, outcome and use after t, and every job submitted after it."""
    draw = np.random.default_rng(seed)
    n = jobs.height
    outcomes = pl.Series(draw.choice(["completed", "failed", "timeout", "out_of_memory"], n))
    wait, length = pl.Series(draw.integers(1, 5000, n)), pl.Series(draw.integers(0, 9000, n))
    unknown = pl.col("known_at").is_null() | (pl.col("known_at") > t)
    not_started = unknown & (pl.col("start").is_null() | (pl.col("start") > t))
    new_start = pl.when(not_started).then(t + wait).otherwise("start")
    new_end = pl.max_horizontal(pl.lit(t + 1), new_start) + length
    later = pl.col("submit") > t
    return jobs.with_columns(
        start=new_start,
        end=pl.when(unknown).then(new_end).otherwise("end"),
        known_at=pl.when(unknown).then(new_end).otherwise("known_at"),
        outcome=pl.when(unknown).then(outcomes).otherwise("outcome"),
        max_memory=pl.when(unknown).then(length * 1_000_003).otherwise("max_memory"),
        suspended=pl.when(unknown).then(None).otherwise("suspended"),
        nodes=pl.when(not_started).then(pl.lit("other[1-4]")).otherwise("nodes"),
        cpus_given=pl.when(not_started).then(77).otherwise("cpus_given"),
        user=pl.when(later).then(pl.lit("somebody")).otherwise("user"),
        cpus_asked=pl.when(later).then(13).otherwise("cpus_asked"),
    )


def leaks(table: Table, jobs: pl.DataFrame, moment: str, cuts: int = 4) -> set[str]:
    """The columns that another future changes in rows whose moment had come."""
    found: set[str] = set()
    times = jobs[moment].drop_nulls().sort()
    for k in range(1, cuts + 1):
        t = int(times[len(times) * k // (cuts + 1)])
        keep = jobs.filter(pl.col(moment) <= t).select("job_id", "submit")
        before = table(jobs).join(keep, on=["job_id", "submit"], maintain_order="left")
        after = table(rewritten(jobs, t, k)).join(keep, on=["job_id", "submit"], maintain_order="left")
        after = before.select("job_id", "submit").join(after, on=["job_id", "submit"], maintain_order="left")
        found |= {c for c in before.columns if c in after.columns and not before[c].equals(after[c])}
    return found


def test_no_submit_feature_sees_the_future() -> None:
    assert leaks(at_submit, history(1200), "submit") == set()


def test_no_start_feature_sees_the_future() -> None:
    assert leaks(at_start, history(1200), "start") == set()


def test_the_last_submitted_jobs_outcome_is_caught() -> None:
    """The leak that lifts CTC's baseline from F1 0.46 to 0.63: the check must find it."""

    def leaky(jobs: pl.DataFrame) -> pl.DataFrame:
        return jobs.sort("submit").select(
            "job_id",
            "submit",
            last_submitted_failed=(pl.col("outcome") != "completed").shift(1).over("user"),
        )

    assert leaks(leaky, history(1200), "submit") == {"last_submitted_failed"}


@pytest.mark.shared_data
def test_no_feature_of_ctc_sees_the_future(shared_data: Path) -> None:
    source = open_source(f"swf:{shared_data}/swf/CTC-SP2-1996-3.1-cln.swf.gz")
    jobs = pl.concat(b.frame for b in source.batches()).head(25_000).with_columns(known_at=pl.col("end"))
    assert leaks(at_submit, jobs, "submit", cuts=2) == set()
    assert leaks(at_start, jobs, "start", cuts=2) == set()
