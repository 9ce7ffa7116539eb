"""Several families as one model."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest

from forewarn.learn.data.matrix import Sample
from forewarn.learn.fitting.ensemble import Ensemble, Recipe, fit_ensemble, member_weights


@pytest.fixture
def ensemble(sample: Callable[..., Sample]) -> tuple[Ensemble, Sample]:
    train = sample(600, seed=1)
    names = train.matrix.names
    recipes = (
        (0.6, Recipe("xgboost", {"max_depth": 3}, names, 30)),
        (0.4, Recipe("lightgbm", {}, names[:4], 20)),
        (0.0, Recipe("catboost", {}, names, 10)),
    )
    return fit_ensemble(recipes, train, seed=0, threads=1), sample(200, seed=2)


def test_margins_are_the_weighted_mean(ensemble: tuple[Ensemble, Sample]) -> None:
    fitted, new = ensemble
    assert [member.recipe.family for member in fitted.members] == ["xgboost", "lightgbm"]
    parts = [m.weight * m.model.margins(new.matrix.columns(m.model.names)) for m in fitted.members]
    np.testing.assert_allclose(fitted.margins(new.matrix), sum(parts))


def test_contributions_add_up_over_members_with_different_columns(ensemble: tuple[Ensemble, Sample]) -> None:
    fitted, new = ensemble
    contributions = fitted.contributions(new.matrix)
    assert contributions.shape == (200, len(new.matrix.names) + 1)
    np.testing.assert_allclose(contributions.sum(axis=1), fitted.margins(new.matrix), rtol=1e-4, atol=1e-4)


def test_importance_is_a_share_and_sorted(ensemble: tuple[Ensemble, Sample]) -> None:
    member_weights = list(ensemble[0].importance().values())
    assert sum(member_weights) == pytest.approx(1)
    assert member_weights == sorted(member_weights, reverse=True)


def test_a_recipe_comes_back_from_json_and_gives_the_same_model(sample: Callable[..., Sample]) -> None:
    train = sample(300, seed=3)
    recipe = Recipe("xgboost", {"max_depth": 2, "eta": 0.1}, train.matrix.names[:5], 15)
    back = Recipe.from_json(json.loads(json.dumps(recipe.to_json())))
    assert back == recipe
    one, two = (r.fit(train, seed=4, threads=1) for r in (recipe, back))
    part = train.matrix.columns(recipe.features)
    assert np.array_equal(one.margins(part), two.margins(part))


def test_trees_share_alike_the_online_regression_has_a_third_and_nobody_is_dropped() -> None:
    assert member_weights(4, online=True) == [pytest.approx(1 / 6)] * 4 + [pytest.approx(1 / 3)]
    assert member_weights(4, online=False) == [0.25] * 4
    assert member_weights(1, online=True) == [pytest.approx(2 / 3), pytest.approx(1 / 3)]
    assert member_weights(0, online=True) == [1]
