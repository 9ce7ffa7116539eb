"""Figures by hours: what weighs, what is ranked by what, and what a source without hours gets."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from forewarn.learn.data.population import POPULATIONS
from forewarn.learn.data.table import JobTable, read_table
from forewarn.learn.evaluation.cause_figures import evaluate_by_cause
from forewarn.learn.evaluation.hours import NO_HOURS, NO_REQUESTED, RankedHours, evaluate_by_hours
from forewarn.store.base import Store


def synthetic_jobs(count: int = 400, seed: int = 0) -> tuple[pl.DataFrame, np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    p = random.random(count)
    fails = (random.random(count) < p).astype(np.float64)
    asked = np.exp(random.normal(0, 2, count))
    used = asked * np.where(fails > 0, 1.0, random.random(count))
    about = pl.DataFrame(
        {
            "user": [f"u{place % 40}" for place in range(count)],
            "submit": [place * 3600 for place in range(count)],
            "cpu_hours": used,
            "asked_cpu_hours": asked,
        }
    )
    return about, fails, p


def test_areas_are_those_of_weighted_rows() -> None:
    about, fails, p = synthetic_jobs()
    found = evaluate_by_hours(about, fails, p, None, {"never": p > 2, "half": p > 0.5}, resamples=20)
    used, asked = about["cpu_hours"].to_numpy(), about["asked_cpu_hours"].to_numpy()
    assert found["roc_auc"] == pytest.approx(roc_auc_score(fails, p, sample_weight=used))
    assert found["pr_auc"] == pytest.approx(average_precision_score(fails, p, sample_weight=used))
    alone = found["asked_alone"]
    assert alone["pr_auc"] == pytest.approx(average_precision_score(fails, asked, sample_weight=used))
    assert found["best_rule"]["rule"] == "half"
    assert found["wasted"] == pytest.approx((used * fails).sum())
    first = np.argsort(-p * asked)[:40]
    assert found["top_10"] == pytest.approx((used * fails)[first].sum() / (used * fails).sum())
    assert found["top_5"] <= found["top_10"] <= found["top_20"]
    assert found["above"]["pr_auc_above_asked_alone"] == pytest.approx(found["pr_auc"] - alone["pr_auc"])
    low, high = found["intervals"]["pr_auc"]
    assert low < found["pr_auc"] < high
    json.dumps(found, allow_nan=False)


def test_a_job_that_tells_no_hours_is_ranked_by_its_risk_of_middling_ones() -> None:
    """As most of LLNL-Thunder's, which ask for no time: last in the list they hid nearly all of the waste."""
    about, fails, p = synthetic_jobs()
    unknown = np.arange(len(p)) % 5 > 0
    asked = about["asked_cpu_hours"].to_numpy()
    with_requests = about.with_columns(
        asked_cpu_hours=pl.when(pl.Series(unknown)).then(None).otherwise("asked_cpu_hours")
    )
    lost = np.where(unknown, np.nan, p * asked)
    found = evaluate_by_hours(with_requests, fails, p, lost, {"never": p > 2}, resamples=5)
    expected = p * np.where(unknown, np.median(asked[~unknown]), asked)
    wasted = about["cpu_hours"].to_numpy() * fails
    assert found["top_20"] == pytest.approx(RankedHours(expected, wasted).share(0.2))
    assert found["top_20"] > RankedHours(np.nan_to_num(lost), wasted).share(0.2)


def test_jobs_are_ranked_by_the_hours_that_they_may_lose_not_by_risk() -> None:
    about, fails, p = synthetic_jobs()
    used = about["cpu_hours"].to_numpy()
    found = evaluate_by_hours(about, fails, p, used * fails, {"never": p > 2}, resamples=5)
    by_risk = RankedHours(p, used * fails).share(0.1)
    assert found["top_10"] > by_risk + 0.3  # the truth itself, which no list can beat
    assert (
        found["top_10"] >= evaluate_by_hours(about, fails, p, None, {"never": p > 2}, resamples=5)["top_10"]
    )


def test_equal_scores_share_what_is_wasted() -> None:
    wasted = np.array([10.0, 0.0, 0.0, 0.0])
    assert RankedHours(np.ones(4), wasted).share(0.25) == pytest.approx(0.25)
    # Drawn twice, a job counts as two jobs.
    assert RankedHours(np.array([4.0, 3, 2, 1]), wasted).share(
        0.2, np.array([2.0, 1, 1, 1])
    ) == pytest.approx(0.5)
    assert np.isnan(RankedHours(np.ones(4), np.zeros(4)).share(0.1))


def test_a_source_without_hours_gets_a_note() -> None:
    about, fails, p = synthetic_jobs(50)
    rules = {"never": p > 2}
    nothing = evaluate_by_hours(about.with_columns(cpu_hours=pl.lit(None)), fails, p, None, rules)
    assert nothing["pr_auc"] is None
    assert nothing["asked_alone"]["top_10"] is None
    assert nothing["note"] == NO_HOURS
    no_limits = evaluate_by_hours(
        about.with_columns(asked_cpu_hours=pl.lit(None)), fails, p, None, rules, resamples=5
    )
    assert no_limits["pr_auc"] is not None
    assert no_limits["top_10"] is None
    assert no_limits["asked_alone"]["pr_auc"] is None
    assert no_limits["note"] == NO_REQUESTED
    json.dumps([nothing, no_limits], allow_nan=False)


def test_jobs_whose_hours_are_not_known_are_left_out() -> None:
    about, fails, p = synthetic_jobs(100)
    holes = about.with_columns(cpu_hours=pl.when(pl.int_range(pl.len()) % 2 == 0).then("cpu_hours"))
    half = np.arange(100) % 2 == 0
    rules = {"half": p > 0.5}
    found = evaluate_by_hours(holes, fails, p, None, rules, resamples=5)
    only = evaluate_by_hours(
        about.filter(pl.Series(half)), fails[half], p[half], None, {"half": (p > 0.5)[half]}, resamples=5
    )
    assert found == only
    assert found["n"] == 50


def test_each_cause_is_judged_among_all_jobs() -> None:
    about = pl.DataFrame(
        {
            "outcome": ["timeout", "failed", "completed", "timeout", "preempted"],
            "kind": ["limit", "user", None, "limit", None],
            "run_time": [60] * 5,
            "time_limit": [60] * 5,
            "cpu_hours": [10.0, 1, 1, 10, 1],
        }
    )
    fails = np.array([1.0, 1, 0, 1, 0])
    outcomes = {"timeout": np.array([0.9, 0.2, 0.1, 0.8, 0.1]), "failed": np.array([0.1, 0.1, 0.2, 0.1, 0.1])}
    found = evaluate_by_cause(about, fails, outcomes)
    assert list(found) == ["timeout", "failed"]
    assert found["timeout"]["roc_auc"] == found["timeout"]["hours"]["pr_auc"] == 1.0
    assert found["timeout"]["base_rate"] == 0.4
    assert found["timeout"]["hours"]["share"] == pytest.approx(20 / 23)
    assert found["failed"]["roc_auc"] == pytest.approx(3 / 8)
    unlearnt = evaluate_by_cause(about, fails, {"timeout": outcomes["timeout"]})["failed"]
    assert unlearnt["n"] == 1
    assert unlearnt["roc_auc"] is None
    json.dumps(found, allow_nan=False)


def test_the_table_tells_hours(cluster: tuple[Store, str], table: JobTable) -> None:
    about = table.about
    ran = about.filter(pl.col("run_time").is_not_null() & pl.col("cpus").is_not_null())
    used = ran["run_time"] * ran.select(pl.coalesce("cpus_used", "cpus")).to_series() / 3600
    assert (ran["cpu_hours"] - used).abs().to_numpy().max() < 1e-9
    never = about.filter(pl.col("start").is_null() & pl.col("end").is_not_null())
    assert (never["cpu_hours"] == 0).all()
    asked = about["time_limit"] * about["cpus"] / 3600
    assert (asked - about["asked_cpu_hours"]).abs().drop_nulls().to_numpy().max() < 1e-9
    assert not {"cpu_hours", "asked_cpu_hours"} & set(table.names)  # never features
    start = read_table(cluster[0], cluster[1], "start", POPULATIONS["papers"])
    assert "cpu_hours" in start.about.columns
