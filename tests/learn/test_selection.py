"""Rankings of columns: what each measure detects, and what must not mislead it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from forewarn.errors import UsageError
from forewarn.learn.data import selection
from forewarn.learn.data.matrix import Matrix, Sample
from forewarn.learn.data.selection import Rankings, correlations, rankings

Make = Callable[..., Sample]


def of_columns(
    fails: Sequence[float], *columns: Sequence[float], categorical: tuple[str, ...] = ()
) -> Sample:
    values = np.array(columns, np.float32).T
    names = tuple(f"x{place}" for place in range(len(columns)))
    return Sample(Matrix(values, names, frozenset(categorical)), np.array(fails), np.ones(len(fails)))


@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(-3, 3), st.booleans()), min_size=3, max_size=60),
)
def test_it_is_spearmans_where_there_are_values_times_their_share(
    rows: list[tuple[int, int, bool]],
) -> None:
    fails, column, missing = (np.array(part, float) for part in zip(*rows, strict=True))
    column[missing > 0] = np.nan
    present = missing == 0
    (found,) = correlations(of_columns(fails.tolist(), column.tolist()))
    constant = len(set(fails[present])) < 2 or len(set(column[present])) < 2
    expected = 0.0 if constant else abs(stats.spearmanr(column[present], fails[present]).statistic)
    assert found == pytest.approx(expected * present.mean(), abs=1e-9)


def test_what_says_nothing_is_worth_nothing() -> None:
    nan = np.nan
    sample = of_columns([0, 1, 0, 1], [5, 5, 5, 5], [nan] * 4, [nan, nan, nan, 3], [0, 1, 0, 1])
    assert correlations(sample).tolist() == [0, 0, 0, 1]


def test_codes_of_categories_have_no_order() -> None:
    """Categories 0 and 2 fail, 1 does not: the order of the codes shows nothing."""
    fails, codes = [1, 0, 1, 1, 0, 1], [0, 1, 2, 0, 1, 2]
    plain, category = (
        correlations(of_columns(fails, codes, categorical=names))[0] for names in ((), ("x0",))
    )
    assert plain == pytest.approx(0)
    assert category == pytest.approx(1)


def test_scale_and_direction_do_not_matter() -> None:
    random = np.random.default_rng(0)
    fails = (random.random(500) < 0.3).astype(float)
    column = random.normal(size=500) + fails
    found = correlations(of_columns(fails.tolist(), column, np.exp(3 * column), -column))
    np.testing.assert_allclose(found, found[0], rtol=1e-6)


def test_both_measures_find_what_matters(sample: Make) -> None:
    found = rankings(sample(4000), seed=0, threads=1)
    for by in ("correlation", "importance"):
        assert set(found.best(by, 2)) == {"x0", "x1"}
        assert {"x0", "x1", "partition"} <= set(found.best(by, 4))
    assert sum(found.by["importance"].values()) == pytest.approx(1)


def test_the_best_columns_stay_in_the_order_of_the_matrix() -> None:
    scores = {"a": 0.1, "b": 0.5, "c": 0.5, "d": 0.9}
    found = Rankings(("a", "b", "c", "d"), {"correlation": scores})
    assert found.best("correlation", 2) == ("b", "d")
    assert found.best("correlation", 3) == ("b", "c", "d")
    assert found.best("correlation", 99) == ("a", "b", "c", "d")
    with pytest.raises(UsageError, match="not ranked by 'luck'; choose from correlation"):
        found.best("luck", 2)
    with pytest.raises(UsageError, match="at least one"):
        found.best("correlation", 0)


def test_it_goes_through_json_and_back(sample: Make) -> None:
    found = rankings(sample(), seed=0, threads=1)
    again = Rankings.from_json(json.loads(json.dumps(found.to_json(), sort_keys=True, allow_nan=False)))
    assert again == found
    assert again.best("importance", 5) == found.best("importance", 5)


def test_the_same_seed_gives_the_same_ranking(sample: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "MOST_ROWS", 300)  # so that rows are drawn
    first, again, other = (rankings(sample(1000), seed=seed, threads=1) for seed in (0, 0, 1))
    assert first == again
    assert first != other


@pytest.mark.slow
def test_a_large_part_is_ranked_quickly(sample: Make) -> None:
    large = sample(50_000)
    values = np.tile(large.matrix.values[:, :8], 5)
    names = tuple(f"x{place}" for place in range(40))
    large = replace(large, matrix=Matrix(values, names))
    began = time.process_time()
    correlations(large)
    assert time.process_time() - began < 4  # takes 0.4 s on a quiet core
