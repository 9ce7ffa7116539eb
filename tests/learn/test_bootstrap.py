"""Intervals by user-week: what a group is, what they cover, and that they are quick."""

from __future__ import annotations

import time

import numpy as np
import polars as pl
import pytest

from forewarn.learn.evaluation.bootstrap import DAY, difference, groups, intervals, statistics
from forewarn.learn.evaluation.metrics import ScoredPredictions, f1, ranking

MONDAY = 4 * DAY  # 5 January 1970


def test_a_group_is_a_user_in_an_iso_week_and_the_nameless_are_alone() -> None:
    about = pl.DataFrame(
        {
            "user": ["a", "b", "a", "a", None, None, "a"],
            "submit": [MONDAY, MONDAY, MONDAY + 7 * DAY - 1, MONDAY + 7 * DAY, MONDAY, MONDAY, MONDAY - 1],
        }
    )
    assert groups(about).tolist() == [0, 1, 0, 2, 3, 4, 5]
    assert groups(about.clear()).tolist() == []


def synthetic_predictions(users: int, jobs: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Users whose jobs share a hidden rate: rows within a group are far from independent."""
    random = np.random.default_rng(seed)
    group = np.repeat(np.arange(users), jobs)
    rate = 1 / (1 + np.exp(-random.normal(-1, 2, users)))[group]
    fails = (random.random(users * jobs) < rate).astype(float)
    return group, fails, np.clip(rate + random.normal(0, 0.1, users * jobs), 0.01, 0.99)


@pytest.mark.slow
def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    truth = ranking(*synthetic_predictions(20_000, 20, 99)[1:])["roc_auc"]
    covered = []
    for seed in range(60):
        group, fails, p = synthetic_predictions(80, 20, seed)
        (low, high) = (
            intervals(group, {"auc": ScoredPredictions(fails, p).roc_auc}, resamples=200, seed=seed)["auc"]
            or []
        )
        covered.append(low <= truth <= high)
    assert np.mean(covered) > 0.85


def test_groups_make_the_interval_wider_than_single_jobs_would() -> None:
    group, fails, p = synthetic_predictions(80, 50)
    auc = {"auc": ScoredPredictions(fails, p).roc_auc}
    by_group = intervals(group, auc)["auc"]
    by_job = intervals(np.arange(len(group)), auc)["auc"]
    assert by_group is not None
    assert by_job is not None
    assert by_group[1] - by_group[0] > 1.5 * (by_job[1] - by_job[0])


def test_all_measures_of_a_report_have_an_interval_around_their_value() -> None:
    group, fails, p = synthetic_predictions(200, 20)
    found = intervals(group, statistics(fails, p, p > 0.5), seed=3)
    values = {**ranking(fails, p), "f1": f1(fails, p > 0.5)}
    assert set(found) == {"roc_auc", "pr_auc", "brier", "ece", "log_loss", "f1"}
    for name, interval in found.items():
        assert interval is not None
        slack = 0.02 if name == "ece" else 0  # resampling adds noise to it, so it lies above the value
        assert interval[0] - slack <= values[name] <= interval[1]
    assert found == intervals(group, statistics(fails, p, p > 0.5), seed=3)
    assert found != intervals(group, statistics(fails, p, p > 0.5), seed=4)


def test_the_difference_is_paired() -> None:
    group, fails, p = synthetic_predictions(200, 20)
    same = difference(group, fails, p > 0.5, p > 0.5)
    assert same == {"f1": 0.0, "interval": [0.0, 0.0]}
    random = np.random.default_rng(0)
    worse = np.where(random.random(len(p)) < 0.05, p <= 0.5, p > 0.5)
    found = difference(group, fails, p > 0.5, worse)
    assert found["f1"] > 0
    assert found["interval"][0] > 0  # unpaired, the two intervals overlap
    alone = intervals(group, {"f1": lambda w: f1(fails, p > 0.5, w)})["f1"]
    assert alone is not None
    assert alone[1] - alone[0] > 2 * (found["interval"][1] - found["interval"][0])


@pytest.mark.parametrize("group", [np.zeros(0, np.int64), np.zeros(50, np.int64)])
def test_where_there_is_no_interval_none_is_given(group: np.ndarray) -> None:
    fails = (np.arange(len(group)) % 2).astype(np.float64)
    assert intervals(group, statistics(fails, fails, fails > 0))["roc_auc"] is None


def test_a_measure_that_is_mostly_undefined_has_no_interval() -> None:
    fails = np.zeros(40)
    fails[0] = 1
    found = intervals(np.repeat(np.arange(2), 20), {"auc": lambda w: np.nan if w[0] else 1.0})
    assert found["auc"] is None
    assert (
        intervals(np.arange(40), {"auc": ScoredPredictions(fails, np.linspace(0, 1, 40)).roc_auc})["auc"]
        is not None
    )


@pytest.mark.slow
def test_fifty_thousand_rows_take_seconds() -> None:
    group, fails, p = synthetic_predictions(2_500, 20)
    begin = time.process_time()
    intervals(group, statistics(fails, p, p > 0.5), resamples=300)
    assert time.process_time() - begin < 10
