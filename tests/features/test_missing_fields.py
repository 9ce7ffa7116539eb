from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from forewarn.features.batch import inputs_of
from forewarn.features.inputs import treated, treated_job
from forewarn.features.missing_fields import find_missing_fields, with_missing_field_treatments
from forewarn.features.table import feature_frames
from forewarn.job.columns import to_records
from forewarn.job.outcomes import POLICIES
from forewarn.job.record import Job
from forewarn.sources.base import open_source
from forewarn.store.base import ClusterFacts
from tests.features.histories import history


def test_a_field_missing_only_in_failures_is_found_and_hidden() -> None:
    failed = pl.col("outcome") == "failed"
    jobs = history(2000).with_columns(
        cpus_asked=pl.when(failed).then(None).otherwise(pl.col("cpus_asked").fill_null(4)),
        time_limit=pl.col("time_limit").fill_null(60),
    )
    (found,) = (f for f in find_missing_fields([jobs[:900], jobs[900:]], "c") if f.field == "cpus_asked")
    assert found.rate == 1.0
    assert found.base is not None
    assert found.base < 0.5
    assert "reveals the outcome" in found.message
    facts = with_missing_field_treatments(ClusterFacts(), [found])
    inputs = inputs_of([{"submit": jobs, "now": jobs}], facts, POLICIES["papers"])
    table = pl.concat(feature_frames(inputs, "submit", "generic"))
    assert table["cpus"].null_count() == 0
    hidden = table.join(jobs.filter(failed), on=["job_id", "submit"], how="semi")["cpus"]
    assert hidden.unique().to_list() == [found.treatment["fill"]]
    assert (table["cpus"] == found.treatment["fill"]).sum() > hidden.len()  # others have it too


def test_fields_missing_at_random_are_left_alone() -> None:
    assert [f.field for f in find_missing_fields([history(3000)], "c")] == []


def test_a_field_no_job_has_is_stood_in_for() -> None:
    jobs = history(300).with_columns(cpus_asked=pl.lit(None, pl.Int64))
    (found,) = find_missing_fields([jobs], "c")
    assert found.treatment["stand_in"] == "cpus_given"
    assert "is used instead" in found.message


def test_what_was_given_missing_only_in_failures_shows_as_what_was_asked() -> None:
    failed = pl.col("outcome") == "failed"
    jobs = history(2000).with_columns(
        cpus_given=pl.when(~failed & pl.col("start").is_not_null()).then(pl.col("cpus_asked").fill_null(4))
    )
    (found,) = (f for f in find_missing_fields([jobs[:900], jobs[900:]], "c") if f.field == "cpus_given")
    assert found.treatment["stand_in"] == "cpus_asked"
    assert found.rows == jobs["start"].count()
    assert "jobs that started" in found.message
    assert "use cpus_asked instead" in found.message
    facts = with_missing_field_treatments(ClusterFacts(), [found])
    inputs = inputs_of([dict.fromkeys(("submit", "start", "now"), jobs)], facts, POLICIES["papers"])
    table = pl.concat(feature_frames(inputs, "start", "generic"))
    assert table["cpus_given"].null_count() == 0
    # Nothing tells these jobs from the others any more: they seem to have got what they asked for.
    asked = table.filter(pl.col("cpus").is_not_null())
    assert (asked["cpus_given"] == asked["cpus"]).all()


def test_one_job_is_filled_as_a_frame_is() -> None:
    facts = ClusterFacts(
        fields={
            "cpus_given": {"fill": 8, "stand_in": "cpus_asked"},
            "cpus_asked": {"fill": 2},
            "name": {"fill": "x"},
        }
    )
    jobs = history(200).with_columns(
        cpus_given=pl.when(pl.int_range(pl.len()) % 3 == 0).then("cpus_asked"), name=pl.lit(None, pl.String)
    )
    filled = treated(jobs, facts)
    assert filled.select("cpus_given", "cpus_asked", "name").null_count().row(0) == (0, 0, 0)
    for one, row in zip(to_records(jobs, Job), filled.iter_rows(named=True), strict=True):
        job = treated_job(one, facts)
        assert (job.cpus_given, job.cpus_asked, job.name) == (
            row["cpus_given"],
            row["cpus_asked"],
            row["name"],
        )


def test_a_stand_in_that_is_missing_too_does_not_show() -> None:
    never = pl.col("start").is_null()
    jobs = history(2000).with_columns(
        cpus_asked=pl.lit(None, pl.Int64), cpus_given=pl.when(~never).then(pl.col("cpus_asked").fill_null(4))
    )
    (found,) = (f for f in find_missing_fields([jobs], "c") if f.field == "cpus_asked")
    assert found.treatment["stand_in"] == "cpus_given"
    assert (
        treated(jobs, with_missing_field_treatments(ClusterFacts(), [found]))["cpus_asked"].null_count() == 0
    )


def test_too_few_rows_say_nothing() -> None:
    jobs = history(29).with_columns(user=pl.when(pl.col("outcome") == "failed").then(None).otherwise("user"))
    assert find_missing_fields([jobs], "c") == []


@pytest.mark.shared_data
def test_thunders_missing_processors(shared_data: Path) -> None:
    """1,062 jobs that never ran, all failures, have no requested processors."""
    source = open_source(f"swf:{shared_data}/swf/LLNL-Thunder-2007-1.1-cln.swf.gz")
    frames = [b.frame for b in source.batches()]
    findings = find_missing_fields(frames, "thunder")
    assert [f.field for f in findings] == ["cpus_asked", "cpus_given"]
    assert findings[0].rate == 1.0
    jobs = pl.concat(frames).with_columns(known_at=pl.col("end"))
    judged = jobs.filter(pl.col("cpus_asked").is_null() & (pl.col("outcome") != "unknown"))
    assert judged.height == 1062
    facts = with_missing_field_treatments(ClusterFacts("US/Pacific"), findings)
    inputs = inputs_of([{"submit": jobs, "now": jobs}], facts, POLICIES["papers"])
    assert not np.isnan(inputs.numbers[:, 0]).any()


@pytest.mark.shared_data
def test_ctc_has_no_requested_processors(shared_data: Path) -> None:
    source = open_source(f"swf:{shared_data}/swf/CTC-SP2-1996-3.1-cln.swf.gz")
    (found,) = find_missing_fields((b.frame for b in source.batches()), "ctc")
    assert (found.field, found.treatment) == ("cpus_asked", {"stand_in": "cpus_given"})
