"""The five families, each held to the contract, and how they are asked for."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest

from forewarn.errors import LearningError, MissingExtraError, UsageError
from forewarn.learn.families import FAMILIES, family
from forewarn.learn.families.base import probabilities
from forewarn.learn.matrix import Matrix, Sample
from tests.learn.conftest import make_sample
from tests.learn.families_contract import FamilyContract, ModelContract, run


class TestXgboost(FamilyContract):
    name = "xgboost"
    params: ClassVar[dict[str, Any]] = {"rounds": 80, "eta": 0.1, "min_child_weight": 4.0}
    eager: ClassVar[dict[str, Any]] = {"rounds": 400, "eta": 0.3, "min_child_weight": 0.1, "lambda": 0.1}
    refused: ClassVar[dict[str, Any]] = {"max_depth": -3}


class TestLightgbm(FamilyContract):
    name = "lightgbm"
    params: ClassVar[dict[str, Any]] = {"rounds": 80, "learning_rate": 0.1, "min_data_in_leaf": 20}
    eager: ClassVar[dict[str, Any]] = {"rounds": 400, "learning_rate": 0.3, "min_data_in_leaf": 2}
    refused: ClassVar[dict[str, Any]] = {"num_leaves": -3}


class TestCatboost(FamilyContract):
    name = "catboost"
    params: ClassVar[dict[str, Any]] = {"rounds": 80, "learning_rate": 0.15}
    eager: ClassVar[dict[str, Any]] = {"rounds": 400, "learning_rate": 0.5, "l2_leaf_reg": 0.1}
    refused: ClassVar[dict[str, Any]] = {"depth": -3}


class TestForest(FamilyContract):
    name = "forest"
    params: ClassVar[dict[str, Any]] = {
        "rounds": 60,
        "min_data_in_leaf": 10,
        "feature_fraction_bynode": 0.5,
    }
    refused: ClassVar[dict[str, Any]] = {"bagging_freq": 0}

    def test_validation_keeps_the_best_round(self) -> None:
        """Here, all of them: more trees do no harm. A refit with as many is the same model."""
        train, held = self.sample(400), self.sample(600, seed=1)
        model = self.fit(train, validation=held)
        assert model.rounds == self.params["rounds"]
        assert np.array_equal(model.margins(held.matrix), self.fit(train).margins(held.matrix))


class TestOnline(ModelContract):
    name = "online"

    def sample(self, rows: int = 1500, seed: int = 0) -> Sample:
        """Its column is log odds already."""
        made = make_sample(rows, seed)
        x0, x1, x2, partition = (np.nan_to_num(made.matrix.values[:, place]) for place in (0, 1, 2, 8))
        odds = 1.5 * x0 - x1 + (x2 > 0.5) + (partition == 2) * 1.5 - 1.2
        values = np.column_stack([made.matrix.values, odds]).astype(np.float32)
        matrix = Matrix(values, (*made.matrix.names, "online"), made.matrix.categorical)
        return replace(made, matrix=matrix)

    def test_it_says_what_the_column_says_and_nothing_where_that_is_missing(self) -> None:
        values = np.array([[1, -2.5], [np.nan, 0.25], [3, np.nan]], np.float32)
        matrix = Matrix(values, ("x", "online"))
        model = self.fit(Sample(matrix, np.zeros(3), np.ones(3)))
        assert model.margins(matrix).tolist() == [-2.5, 0.25, 0]
        assert model.contributions(matrix).tolist() == [[0, -2.5, 0], [0, 0.25, 0], [0, 0, 0]]
        assert model.importance().tolist() == [0, 1]
        assert model.rounds == 0

    def test_without_its_column_it_cannot_be(self) -> None:
        with pytest.raises(LearningError, match="needs the column `online`"):
            self.fit(make_sample(20))


class TestRule(ModelContract):
    name = "rule"
    # Its columns hold 0, 1 or nothing.
    test_infinite_is_very_large = None
    test_a_category_that_was_not_there_is_no_trouble = None

    def sample(self, rows: int = 1500, seed: int = 0) -> Sample:
        """How the last job of the user with this request ended, and of the user."""
        made = make_sample(rows, seed)
        random = np.random.default_rng(seed)
        right = random.random((2, rows)) < [[0.9], [0.75]]
        last = np.where(right, made.fails, 1 - made.fails)
        last[random.random((2, rows)) < 0.2] = np.nan
        matrix = Matrix(last.T.astype(np.float32), ("user_request_last", "user_last"))
        return replace(made, matrix=matrix)

    def test_log_odds_are_those_of_what_the_rule_answers(self) -> None:
        last = np.array([[1, 0], [1, np.nan], [0, 1], [np.nan, 1], [np.nan, np.nan]], np.float32)
        matrix = Matrix(last.repeat(1000, axis=0), ("a", "b"))
        rates = np.repeat([0.8, 0.8, 0.2, 0.8, 0.4], 1000)
        fails = np.tile(np.arange(1000) / 1000, 5) < rates
        model = self.fit(Sample(matrix, fails.astype(float), np.ones(5000)))
        made = probabilities(model.margins(Matrix(last, ("a", "b"))))
        assert made == pytest.approx([0.8, 0.8, 0.2, 0.8, 0.4], abs=0.01)

    def test_a_job_counts_by_its_weight(self) -> None:
        last = np.array([[1], [1], [0]], np.float32).repeat(100, axis=0)
        fails = np.repeat([1.0, 0.0, 0.0], 100)
        weights = np.repeat([0.25, 1.0, 1.0], 100)
        model = self.fit(Sample(Matrix(last, ("a",)), fails, weights))
        failed = probabilities(model.margins(Matrix(np.ones((1, 1), np.float32), ("a",))))
        assert failed[0] == pytest.approx((25 + 2 / 9) / 127)

    def test_it_warns_of_what_failed_last_whatever_came_of_it(self) -> None:
        """Of nobody else, even where those that failed last then went well: it is the rule that serves."""
        last = np.array([[1], [0], [np.nan]], np.float32).repeat(100, axis=0)
        fails = np.repeat([0.0, 1.0, 0.0], 100)
        model = self.fit(Sample(Matrix(last, ("a",)), fails, np.ones(300)))
        failed, well, none = model.margins(Matrix(last[::100], ("a",)))
        assert failed > max(well, none)

    def test_other_columns_are_refused(self) -> None:
        with pytest.raises(LearningError, match="how a last job ended"):
            self.fit(make_sample(20))


def test_only_the_library_of_the_family_is_loaded() -> None:
    """Asking for one family must not cost the import of another, nor the package that of any."""
    printed = run("""
        import sys
        from forewarn.learn.families import family

        for name in ("online", "forest", "lightgbm", "xgboost", "catboost"):
            family(name)
            print(name, *sorted({"xgboost", "lightgbm", "catboost"} & set(sys.modules)))
    """)
    assert printed.splitlines() == [
        "online",
        "forest lightgbm",
        "lightgbm lightgbm",
        "xgboost lightgbm xgboost",
        "catboost catboost lightgbm xgboost",
    ]


def test_an_unknown_family_is_told_which_there_are() -> None:
    with pytest.raises(
        UsageError, match="'cart'; there are xgboost, lightgbm, catboost, forest, online, rule"
    ):
        family("cart")


@pytest.mark.parametrize("name", FAMILIES)
def test_a_missing_library_is_answered_with_the_line_to_type(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = "lightgbm" if name == "forest" else name
    monkeypatch.setitem(sys.modules, library, None)
    for module in (name, library):
        monkeypatch.delitem(sys.modules, f"forewarn.learn.families.{module}", raising=False)
    with pytest.raises(MissingExtraError, match=r"pip install 'forewarn\[train\]'"):
        family(name)


def test_forest_margins_are_log_odds_of_the_leaves_rates() -> None:
    """One column that splits the rows in two leaves: their margins are the log odds of their rates."""
    random = np.random.default_rng(0)
    side = (np.arange(4000) % 2).astype(np.float32)
    fails = (random.random(4000) < np.where(side > 0, 0.7, 0.05)).astype(np.float64)
    sample = Sample(Matrix(side[:, None], ("side",)), fails, np.ones(4000))
    model = family("forest").fit(sample, {"lambda_l2": 0.0}, seed=0, threads=1)
    for value in (0, 1):
        rate = fails[side == value].mean()
        margin = model.margins(Matrix(np.array([[value]], np.float32), ("side",)))[0]
        assert margin == pytest.approx(np.log(rate / (1 - rate)), abs=0.05)
