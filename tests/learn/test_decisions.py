"""One vote for each bulk: what a decision is, what it is worth, and what that changes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
import pytest

from forewarn.learn.evaluation.decisions import (
    FEW,
    GAP,
    REQUEST,
    count_decisions,
    decisions,
    effective_count,
    evaluate_by_decision,
)
from forewarn.learn.evaluation.metrics import ScoredPredictions, at_threshold, weighted_at_threshold


def jobs(users: Sequence[str | None], submits: list[int], **request: list[int]) -> pl.DataFrame:
    columns = {name: request.get(name, [1] * len(users)) for name in REQUEST}
    return pl.DataFrame({"user": users, "submit": submits, **columns}, schema_overrides={"user": pl.String})


def test_a_decision_ends_with_a_gap_another_user_or_another_request() -> None:
    about = jobs(["a", "a", "b", "a", "a", "a"], [0, GAP - 1, GAP, GAP, 2 * GAP, 2 * GAP], cpus=[1] * 5 + [2])
    # The fifth comes ten minutes after the fourth: that long a pause is a new decision.
    assert decisions(about).tolist() == [0, 0, 1, 0, 2, 3]


def test_a_long_bulk_is_one_decision_as_long_as_it_goes_on() -> None:
    about = jobs(["a"] * 100, [place * (GAP - 1) for place in range(100)])
    assert count_decisions(about) == {"jobs": 100, "decisions": 1, "effective": 1.0, "few": True}


def test_without_users_equal_jobs_are_one() -> None:
    assert decisions(jobs([None, None, None], [0, 1, 2], cpus=[1, 1, 2])).tolist() == [0, 0, 1]


def test_no_jobs_hold_no_decision() -> None:
    assert count_decisions(jobs([], [])) == {"jobs": 0, "decisions": 0, "effective": 0.0, "few": True}


def test_a_bulk_has_one_vote() -> None:
    """A bulk of a thousand failures that the rule foresees, and 200 jobs that only the model foresees."""
    random = np.random.default_rng(0)
    count = 200
    users = ["bulk"] * 1000 + [f"u{place}" for place in range(count)]
    about = jobs(users, [0] * 1000 + [5] * count)
    fails = np.concatenate([np.ones(1000), (random.random(count) < 0.4).astype(np.float64)])
    p = np.concatenate([np.full(1000, 0.2), np.where(fails[1000:] > 0, 0.7, 0.1)])
    rule = np.concatenate([np.ones(1000, np.bool_), np.zeros(count, np.bool_)])
    found = evaluate_by_decision(about, fails, p, p > 0.5, {"rule": rule}, resamples=20)
    assert at_threshold(fails, rule)["f1"] > 0.9 > 0.2 > at_threshold(fails, p > 0.5)["f1"]  # by job
    assert found["f1"] > 0.95  # by decision it is the other way round
    assert found["above_best_baseline"]["f1"] > 0.9
    assert found["decisions"] == count + 1
    assert found["effective"] == pytest.approx(1200**2 / (1000**2 + count))
    assert found["few"]
    low, high = found["intervals"]["f1_above_best_baseline"]
    assert low <= found["above_best_baseline"]["f1"] <= high


def test_single_jobs_are_judged_as_by_job() -> None:
    random = np.random.default_rng(1)
    count = 3 * FEW
    about = jobs([f"u{place}" for place in range(count)], [0] * count)
    p = random.random(count)
    fails = (random.random(count) < p).astype(np.float64)
    found = evaluate_by_decision(about, fails, p, p > 0.5, {"never": p > 2}, resamples=5)
    judged = ScoredPredictions(fails, p)
    assert found["roc_auc"] == pytest.approx(judged.roc_auc())
    assert found["pr_auc"] == pytest.approx(judged.pr_auc())
    assert found["effective"] == effective_count(np.arange(count)) == count
    assert not found["few"]
    by_job = at_threshold(fails, p > 0.5)
    for name, value in weighted_at_threshold(fails, p > 0.5, np.ones(count)).items():
        assert value == pytest.approx(by_job[name]) == pytest.approx(found[name])
