"""Balancing of classes: what each method adds, and what it must not change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forewarn.errors import NotEnoughError, UsageError
from forewarn.learn.data import imbalance
from forewarn.learn.data.imbalance import BALANCINGS, balance
from forewarn.learn.data.matrix import Matrix, Sample
from tests.learn.conftest import make_sample

Make = Callable[..., Sample]


def of_class(sample: Sample, value: float) -> Sample:
    return sample.rows(sample.fails == value)


def few(failed: int, good: int = 60, seed: int = 0) -> Sample:
    sample = make_sample(600, seed)
    return sample.rows(
        np.r_[np.flatnonzero(sample.fails == 1)[:failed], np.flatnonzero(sample.fails == 0)[:good]]
    )


@settings(max_examples=25)
@given(
    how=st.sampled_from(BALANCINGS[1:]),
    failed=st.integers(2, 30),
    good=st.integers(2, 30),
    heavy=st.floats(0.5, 4),
    seed=st.integers(0, 5),
)
def test_both_classes_weigh_the_same(how: str, failed: int, good: int, heavy: float, seed: int) -> None:
    sample = few(failed, good, seed)
    sample = replace(sample, weights=np.full(len(sample), heavy))
    result = balance(sample, how, seed=seed)
    assert of_class(result, 1).weights.sum() == pytest.approx(of_class(result, 0).weights.sum())
    # No row is lost, and what was there comes first and is as it was.
    np.testing.assert_array_equal(result.matrix.values[: len(sample)], sample.matrix.values)
    np.testing.assert_array_equal(result.fails[: len(sample)], sample.fails)
    assert result.matrix.names == sample.matrix.names
    assert result.matrix.categorical == sample.matrix.categorical


@pytest.mark.parametrize("how", BALANCINGS)
def test_the_same_seed_gives_the_same_rows(how: str, sample: Make) -> None:
    first, again, other = (balance(sample(), how, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.matrix.values, again.matrix.values)
    assert (how in ("none", "weights")) == np.array_equal(
        first.matrix.values, other.matrix.values, equal_nan=True
    )


def test_none_is_the_sample_itself(sample: Make) -> None:
    original = sample()
    assert balance(original, "none", seed=0) is original


def test_weights_keep_what_rows_weighed_within_their_class() -> None:
    original = few(10)
    original = replace(original, weights=np.linspace(1, 3, len(original)))
    result = balance(original, "weights", seed=0)
    factors = result.weights / original.weights
    assert len(np.unique(factors[original.fails == 1].round(12))) == 1
    assert result.weights.sum() == pytest.approx(original.weights.sum())


def test_oversampling_repeats_rows_with_their_weights() -> None:
    original = few(7)
    original = replace(original, weights=np.arange(1.0, len(original) + 1))  # a weight names its row
    result = balance(original, "oversample", seed=3)
    added = result.weights[len(original) :].astype(int) - 1
    assert set(added) <= set(np.flatnonzero(original.fails == 1))
    np.testing.assert_array_equal(result.matrix.values[len(original) :], original.matrix.values[added])


def test_synthetic_rows_lie_between_real_ones_of_their_class_and_have_real_categories() -> None:
    original = few(20)
    result = balance(original, "smote", seed=0)
    fresh = result.matrix.values[len(original) :]
    real = of_class(original, 1).matrix.values
    assert len(fresh) == 40
    assert (result.fails[len(original) :] == 1).all()
    middles = np.nanmedian(original.matrix.values[:, :8], axis=0)  # stand for what is missing
    low = np.minimum(np.nanmin(real[:, :8], axis=0), middles) - 1e-5
    high = np.maximum(np.nanmax(real[:, :8], axis=0), middles) + 1e-5
    lacks = np.isnan(fresh[:, :8])
    assert (lacks | ((fresh[:, :8] >= low) & (fresh[:, :8] <= high))).all()
    codes = fresh[:, 8]
    assert set(codes[~np.isnan(codes)]) <= set(real[~np.isnan(real[:, 8]), 8])


def test_synthetic_rows_miss_values_as_often_as_real_ones() -> None:
    """Were they complete, a model would learn to distinguish synthetic rows from real ones."""
    original = make_sample(3000)
    rows = np.flatnonzero((original.fails == 0) | (np.arange(3000) % 4 == 0))
    original = original.rows(rows)
    fresh = balance(original, "smote", seed=0).matrix.values[len(original) :, :8]
    real = np.isnan(of_class(original, 1).matrix.values[:, :8]).mean()
    assert np.isnan(fresh).mean() == pytest.approx(real, rel=0.35)


def test_smote_sees_columns_at_one_scale() -> None:
    """Bytes and shares: the column with the largest numbers must not decide who is a neighbour."""
    original = few(30)
    numbers = Matrix(np.nan_to_num(original.matrix.values[:, :8]), original.matrix.names[:8])
    original = replace(original, matrix=numbers)
    scales = np.float32(2.0) ** np.arange(0, 40, 5)
    large = replace(original, matrix=replace(numbers, values=numbers.values * scales))
    plain = balance(original, "smote", seed=0).matrix.values
    np.testing.assert_allclose(balance(large, "smote", seed=0).matrix.values, plain * scales, rtol=1e-3)


def test_the_rarer_class_may_be_the_good_ends() -> None:
    original = few(50, good=10)
    result = balance(original, "smote", seed=0)
    assert (result.fails[len(original) :] == 0).all()
    assert len(result) == 100


def test_a_large_sample_gets_few_synthetic_rows_of_high_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imbalance, "MOST_COMPARED", 8)
    monkeypatch.setattr(imbalance, "MOST_SYNTHETIC", 10)
    original = few(20)
    result = balance(original, "smote", seed=0)
    assert len(result) - len(original) == 10
    assert of_class(result, 1).weights.sum() == pytest.approx(of_class(result, 0).weights.sum())


def test_a_column_without_any_value_stays_so() -> None:
    original = few(10)
    values = original.matrix.values.copy()
    values[:, 3] = np.nan
    values[:, 4] = 7  # constant
    values[:, 8] = np.nan  # a category that nobody has
    result = balance(replace(original, matrix=replace(original.matrix, values=values)), "smote", seed=0)
    assert np.isnan(result.matrix.values[:, [3, 8]]).all()
    assert (result.matrix.values[:, 4] == 7).all()


def test_two_rows_are_enough_for_smote_and_one_is_not() -> None:
    assert len(balance(few(2), "smote", seed=0)) == 120
    with pytest.raises(NotEnoughError, match="there is 1 among the 61"):
        balance(few(1), "smote", seed=0)


@pytest.mark.parametrize("how", BALANCINGS)
def test_one_class_cannot_be_balanced(how: str) -> None:
    with pytest.raises(NotEnoughError, match="all 60 jobs to learn from ended well"):
        balance(few(0), how, seed=0)


def test_categories_alone_have_nothing_between() -> None:
    with pytest.raises(NotEnoughError, match="categories only"):
        balance(few(9).columns(("partition",)), "smote", seed=0)


def test_an_unknown_way_is_named(sample: Make) -> None:
    with pytest.raises(UsageError, match="no method 'magic'; choose from none, weights"):
        balance(sample(), "magic", seed=0)
