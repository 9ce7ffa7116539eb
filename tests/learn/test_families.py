"""The six families, each with the contract's tests, and how a family is found by its name."""

from __future__ import annotations

import sys
from collections.abc import Callable
from ctypes import CDLL
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from forewarn.errors import LearningError, MissingExtraError, UsageError
from forewarn.learn.data.matrix import Matrix, Sample
from forewarn.learn.families import FAMILIES, family
from forewarn.learn.families.base import probabilities
from forewarn.learn.families.catboost_native import CatboostTrees
from forewarn.learn.families.shared_library import LibraryError, open_library
from tests.learn.conftest import make_sample
from tests.learn.families_contract import FamilyContract, ModelContract, ValuesContract, run

pytestmark = pytest.mark.slow


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
        """A forest keeps all trees: more do no harm. A refit with as many is the same model."""
        train, held = self.sample(400), self.sample(600, seed=1)
        model = self.fit(train, validation=held)
        assert model.rounds == self.params["rounds"]
        assert np.array_equal(model.margins(held.matrix), self.fit(train).margins(held.matrix))


class TestOnline(ValuesContract):
    name = "online"

    def sample(self, rows: int = 1500, seed: int = 0) -> Sample:
        """Add the column of log odds."""
        plain = make_sample(rows, seed)
        x0, x1, x2, partition = (np.nan_to_num(plain.matrix.values[:, place]) for place in (0, 1, 2, 8))
        odds = 1.5 * x0 - x1 + (x2 > 0.5) + (partition == 2) * 1.5 - 1.2
        values = np.column_stack([plain.matrix.values, odds]).astype(np.float32)
        matrix = Matrix(values, (*plain.matrix.names, "online"), plain.matrix.categorical)
        return replace(plain, matrix=matrix)

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
    """Its columns hold 0, 1 or nothing: no part for other values."""

    name = "rule"

    def sample(self, rows: int = 1500, seed: int = 0) -> Sample:
        """Draw how the user's last job with this request ended, and the user's last job."""
        plain = make_sample(rows, seed)
        random = np.random.default_rng(seed)
        right = random.random((2, rows)) < [[0.9], [0.75]]
        last = np.where(right, plain.fails, 1 - plain.fails)
        last[random.random((2, rows)) < 0.2] = np.nan
        matrix = Matrix(last.T.astype(np.float32), ("user_request_last", "user_last"))
        return replace(plain, matrix=matrix)

    def test_log_odds_are_those_of_what_the_rule_answers(self) -> None:
        last = np.array([[1, 0], [1, np.nan], [0, 1], [np.nan, 1], [np.nan, np.nan]], np.float32)
        matrix = Matrix(last.repeat(1000, axis=0), ("a", "b"))
        rates = np.repeat([0.8, 0.8, 0.2, 0.8, 0.4], 1000)
        fails = np.tile(np.arange(1000) / 1000, 5) < rates
        model = self.fit(Sample(matrix, fails.astype(float), np.ones(5000)))
        found = probabilities(model.margins(Matrix(last, ("a", "b"))))
        assert found == pytest.approx([0.8, 0.8, 0.2, 0.8, 0.4], abs=0.01)

    def test_a_job_counts_by_its_weight(self) -> None:
        last = np.array([[1], [1], [0]], np.float32).repeat(100, axis=0)
        fails = np.repeat([1.0, 0.0, 0.0], 100)
        weights = np.repeat([0.25, 1.0, 1.0], 100)
        model = self.fit(Sample(Matrix(last, ("a",)), fails, weights))
        failed = probabilities(model.margins(Matrix(np.ones((1, 1), np.float32), ("a",))))
        assert failed[0] == pytest.approx((25 + 2 / 9) / 127)

    def test_it_warns_of_what_failed_last_whatever_came_of_it(self) -> None:
        """And of no other job, even if jobs after a failure ended well: the rule serves as it is."""
        last = np.array([[1], [0], [np.nan]], np.float32).repeat(100, axis=0)
        fails = np.repeat([0.0, 1.0, 0.0], 100)
        model = self.fit(Sample(Matrix(last, ("a",)), fails, np.ones(300)))
        failed, well, none = model.margins(Matrix(last[::100], ("a",)))
        assert failed > max(well, none)

    def test_it_learns_from_no_other_columns(self) -> None:
        with pytest.raises(LearningError, match="how a last job ended"):
            self.fit(make_sample(20))


@pytest.mark.parametrize("name", FAMILIES)
def test_answering_imports_no_package_of_a_library(name: str, tmp_path: Path) -> None:
    """Their import would slow down commands that a person waits for."""
    family(name).fit(make_sample(), {"rounds": 5}, seed=0, threads=1).save(tmp_path)
    printed = run(f"""
        import sys
        from pathlib import Path
        import numpy
        from forewarn.learn.families import family
        from forewarn.learn.data.matrix import Matrix

        model = family({name!r}).load(Path({str(tmp_path)!r}))
        rows = Matrix(numpy.zeros((3, 9), "f4"), model.names, model.categorical)
        model.margins(rows), model.contributions(rows)
        print(*{{"xgboost", "lightgbm", "catboost", "sklearn", "pandas", "scipy"}}.intersection(sys.modules))
    """)
    assert printed.strip() == ""


def of_xgboost(path: Path, matrix: Matrix) -> tuple[Any, Any, Any]:
    import xgboost

    booster = xgboost.Booster(model_file=path)
    kinds = ["c" if name in matrix.categorical else "q" for name in matrix.names]
    rows = xgboost.DMatrix(matrix.values, feature_types=kinds, enable_categorical=True)
    gains = booster.get_score(importance_type="total_gain")
    found = [gains.get(f"f{place}", 0.0) for place in range(len(matrix.names))]
    return booster.predict(rows, output_margin=True), booster.predict(rows, pred_contribs=True), found


def of_lightgbm(path: Path, matrix: Matrix) -> tuple[Any, Any, Any]:
    import lightgbm

    booster = lightgbm.Booster(model_file=path)
    margins = booster.predict(matrix.values, raw_score=True)
    return margins, booster.predict(matrix.values, pred_contrib=True), booster.feature_importance("gain")


def of_catboost(path: Path, matrix: Matrix) -> tuple[Any, Any, Any]:
    import catboost

    booster = catboost.CatBoost().load_model(str(path))
    codes = np.nan_to_num(matrix.values[:, 8:], nan=-1).astype(int).astype("S").astype(object)
    rows = catboost.Pool(catboost.FeaturesData(np.ascontiguousarray(matrix.values[:, :8]), codes))
    contributions = booster.get_feature_importance(rows, type="ShapValues")
    return (
        booster.predict(rows, prediction_type="RawFormulaVal"),
        contributions,
        booster.get_feature_importance(),
    )


@pytest.mark.parametrize(
    ("name", "params", "package"),
    [
        ("xgboost", {"rounds": 60, "min_child_weight": 1.0}, of_xgboost),
        ("lightgbm", {"rounds": 60, "min_data_in_leaf": 5}, of_lightgbm),
        ("catboost", {"rounds": 60}, of_catboost),
        ("catboost", {"rounds": 60, "depth": 8, "rsm": 1.0, "l2_leaf_reg": 1.0}, of_catboost),
        ("catboost", {"rounds": 30, "depth": 1}, of_catboost),
    ],
)
@pytest.mark.parametrize("rows", [1, 1500])
def test_predictions_equal_those_of_the_package(
    name: str, params: dict[str, Any], package: Callable[..., Any], rows: int, tmp_path: Path
) -> None:
    """Also for missing values, unknown categories, and values on the borders of splits."""
    model = family(name).fit(make_sample(900), params, seed=1, threads=1)
    model.save(tmp_path)
    matrix = make_sample(900).matrix.rows(np.arange(rows) % 900)
    matrix.values[::7, 8] = 9
    (path,) = (path for path in tmp_path.iterdir() if path.suffix != ".json")
    margins, contributions, gains = package(path, matrix)
    np.testing.assert_allclose(model.margins(matrix), margins, atol=1e-6)
    np.testing.assert_allclose(model.contributions(matrix), contributions, atol=1e-6)
    np.testing.assert_allclose(model.importance(), gains / np.sum(gains), atol=1e-6)


def test_a_crafted_file_of_catboost_is_refused_or_answers(tmp_path: Path) -> None:
    """Its digest is right, but CatBoost did not write it: none of its content is trusted."""
    family("catboost").fit(make_sample(), {"rounds": 5}, seed=0, threads=1).save(tmp_path)
    data, random, refused = (tmp_path / "model.cbm").read_bytes(), np.random.default_rng(0), 0
    rows = make_sample(3).matrix.values
    for _ in range(500):
        changed = bytearray(data)
        for place in random.integers(0, len(data), 8):
            changed[place] = random.integers(0, 256)
        try:
            CatboostTrees(bytes(changed), (8,)).margins(rows)
        except (LibraryError, IndexError):
            refused += 1
    assert refused > 100
    for wrong in (b"", data[:100], b"CBM1" + bytes(100), data[:8]):
        with pytest.raises(LibraryError):
            CatboostTrees(wrong)


def test_an_unknown_family_is_an_error_that_lists_all() -> None:
    with pytest.raises(
        UsageError, match="'cart'; choose from xgboost, lightgbm, catboost, forest, online, rule"
    ):
        family("cart")


@pytest.mark.parametrize("name", FAMILIES)
def test_a_missing_library_is_answered_with_the_line_to_type(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "lightgbm" if name == "forest" else name, None)
    for ask in (
        family(name).check_library,
        lambda: family(name).fit(make_sample(), {"rounds": 2}, seed=0, threads=1),
    ):
        with pytest.raises(MissingExtraError, match=r"pip install 'forewarn\[train\]'"):
            ask()


def test_a_missing_shared_library_is_answered_with_the_line_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MissingExtraError, match=r"needs xgboost.*linked.*pip install 'forewarn\[train\]'"):
        open_library("xgboost", broken)
    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.raises(MissingExtraError, match="not installed"):
        open_library("xgboost", CDLL)


def broken(path: str) -> CDLL:
    raise OSError(f"{path} is linked to a missing library")


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
