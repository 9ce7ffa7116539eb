"""Active learning: the chosen jobs, the best round, and the random choices to compare with."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from forewarn.errors import NotEnoughError, UsageError
from forewarn.learn.data.active import ActiveResult, active_learning, density, stratified
from forewarn.learn.data.matrix import Matrix, Sample
from forewarn.learn.families import family

Make = Callable[..., Sample]
QUICK = {"rounds": 30, "eta": 0.2, "min_child_weight": 2}


def learnt(pool: Sample, validation: Sample, **how: int) -> ActiveResult:
    settings: dict[str, Any] = {"seed": 0, "threads": 1, "rounds": 6, "batch": 25} | how
    return active_learning(family("xgboost"), QUICK, pool, validation, **settings)


def test_rounds_add_the_batch_and_the_best_is_kept(sample: Make) -> None:
    pool, reported = sample(600), []
    result = active_learning(
        family("xgboost"), QUICK, pool, sample(400, 1), seed=0, threads=1, rounds=6, batch=25, patience=6,
        progress=lambda done, total: reported.append((done, total)),
    )  # fmt: skip
    assert [r.jobs for r in result.history] == [50, 75, 100, 125, 150, 175, 200]
    scores = [r.pr_auc for r in result.history]
    assert result.best_round == int(np.argmax(scores))
    assert len(result.rows) == len(set(result.rows)) == result.history[result.best_round].jobs
    assert pool.fails[result.rows].sum() == result.history[result.best_round].failed
    assert [len(choice.rows) for choice in result.random] == [len(result.rows)] * 5
    assert len({tuple(choice.rows) for choice in result.random}) == 5
    assert reported[0] == (1, 12)
    assert reported[-1] == (12, 12)


def test_what_is_chosen_is_uncertain_and_not_alone(sample: Make) -> None:
    """The first batch by hand."""
    pool = sample(600)
    result = learnt(pool, sample(400, 1), rounds=1, patience=1)
    start = stratified(pool, 50, seed=0)
    model = family("xgboost").fit(pool.rows(start), QUICK, seed=0, threads=1)
    p = 1 / (1 + np.exp(-model.margins(pool.matrix)))
    scores = (1 - np.abs(2 * p - 1)) * density(pool.matrix, seed=0)
    scores[start] = -1
    assert result.best_round == 1, "this sample is too small for the start to be the best"
    assert set(result.rows) - set(start) == set(np.argsort(-scores)[:25])


def test_it_ends_when_no_round_was_better_for_a_while(sample: Make) -> None:
    """A pool whose labels are noise: nothing gets better for long."""
    pool = sample(600)
    noise = Sample(pool.matrix, np.random.default_rng(5).permutation(pool.fails), pool.weights)
    result = learnt(noise, sample(400, 1), rounds=20, patience=2, random_choices=0)
    assert len(result.history) == result.best_round + 3 < 21
    assert result.to_json()["random"] == {"pr_auc": [], "mean": None, "spread": None}


def test_models_that_cannot_tell_jobs_apart_yet_do_not_end_it(sample: Make) -> None:
    """With few jobs, strong regularisation leaves no tree a split."""
    strict = {"rounds": 30, "eta": 0.2, "gamma": 5}
    result = active_learning(
        family("xgboost"), strict, sample(900), sample(400, 1),
        seed=0, threads=1, rounds=15, batch=20, patience=2, random_choices=0,
    )  # fmt: skip
    scores = [r.pr_auc for r in result.history]
    assert scores[0] == scores[1] == scores[2] < max(scores)


def test_a_small_pool_is_used_up(sample: Make) -> None:
    result = learnt(sample(90), sample(400, 1), rounds=20, patience=20, batch=30, random_choices=1)
    assert [r.jobs for r in result.history] == [60, 90]


@pytest.mark.slow
def test_the_same_seed_gives_the_same_result(sample: Make) -> None:
    first, again, other = (learnt(sample(400), sample(300, 1), seed=s).to_json() for s in (3, 3, 4))
    assert first == again != other
    assert json.loads(json.dumps(first, allow_nan=False)) == first
    assert first["random"]["mean"] == pytest.approx(np.mean(first["random"]["pr_auc"]))


@pytest.mark.parametrize(("jobs", "failed"), [(10, 3), (2, 1), (1, 1), (400, 120)])
def test_a_start_keeps_the_shares_and_has_both_classes(jobs: int, failed: int) -> None:
    fails = np.r_[np.ones(120), np.zeros(280)]
    pool = Sample(Matrix(np.zeros((400, 1), np.float32), ("x",)), fails, np.ones(400))
    rows = stratified(pool, jobs, seed=0)
    assert fails[rows].sum() == failed
    assert len(rows) == max(jobs, 2)
    assert np.array_equal(stratified(pool, jobs, seed=0), rows)


def points(*columns: list[float] | NDArray[np.float64], categorical: tuple[str, ...] = ()) -> Matrix:
    values = np.array(columns, np.float32).T
    return Matrix(values, tuple(f"x{n}" for n in range(len(columns))), frozenset(categorical))


def test_a_crowd_is_denser_than_an_outlier_at_any_scale() -> None:
    random = np.random.default_rng(0)
    column = np.r_[random.normal(size=99), 9.0]
    found = density(points(column, 1e12 * column), seed=0)
    assert found.argmin() == 99
    assert ((found > 0) & (found <= 1)).all()


def test_a_rare_category_is_less_dense_whatever_its_code() -> None:
    codes = [0.0] * 40 + [1.0] * 5 + [2.0] * 40 + [np.nan] * 3
    found = density(points([0.0] * 88, codes, categorical=("x1",)), seed=0)
    assert found[40] < found[0]
    assert found[0] == pytest.approx(found[50])


def test_missing_and_constant_columns_do_no_harm() -> None:
    empty, constant = [np.nan] * 50, [7.0] * 50
    assert density(points(empty, constant), seed=0).tolist() == [1.0] * 50


def test_many_rows_are_compared_in_parts() -> None:
    column = np.random.default_rng(0).normal(size=45_000)
    whole = density(points(column), seed=0)
    assert len(whole) == 45_000
    assert whole[np.abs(column) < 0.1].min() > whole[np.abs(column) > 2.5].max()


def test_one_class_and_wrong_numbers_are_errors(sample: Make) -> None:
    good = sample(300)
    with pytest.raises(NotEnoughError, match=r"the pool has .* one class only"):
        learnt(good.rows(good.fails == 0), good)
    with pytest.raises(NotEnoughError, match=r"the validation has .* one class only"):
        learnt(good, good.rows(good.fails == 1))
    with pytest.raises(UsageError, match="batch"):
        learnt(good, good, batch=0)
