"""A model in other people's pipelines: any kind of frame, the same answer as inside."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from forewarn.errors import UsageError
from forewarn.learn.data.table import JobTable
from forewarn.learn.registry.bundle import Bundle
from forewarn.learn.registry.serving import ModelName
from forewarn.operate.model import Model, as_polars
from tests.assess.conftest import bundle, cluster, table
from tests.learn.bundles import tiny_bundle

pytestmark = pytest.mark.slow

__all__ = ["bundle", "cluster", "table"]


@pytest.fixture(scope="module")
def without_profiles(bundle: Bundle, table: JobTable) -> Bundle:
    """The same model as one that was trained without `--profiles`."""
    from dataclasses import replace

    from forewarn.learn.data.assembly import Assembly
    from forewarn.learn.fitting.ensemble import Recipe, fit_ensemble

    rows = np.flatnonzero(table.labelled)[:2500]
    assembly = Assembly.fit(table, rows, "generic")
    sample = assembly.sample(table, rows)
    recipes = [(1.0, Recipe("lightgbm", {"num_leaves": 15}, sample.matrix.names, 30))]
    ensemble = fit_ensemble(recipes, sample, seed=1, threads=1)
    return replace(bundle, assembly=assembly, ensemble=ensemble, profiles=None)


@pytest.fixture(scope="module")
def model(without_profiles: Bundle, tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = tmp_path_factory.mktemp("model") / "bundle"
    without_profiles.save(folder)
    return Model(folder, ModelName("alps", "submit", "generic"), 1)


@pytest.fixture(scope="module")
def features(table: JobTable) -> pl.DataFrame:
    """As `Site.features` gives them: numbers with nulls, and the categories."""
    numbers = pl.DataFrame(table.values, schema=list(table.names), orient="row").fill_nan(None)
    categories = ("partition", "qos", "script_language", "script_launcher", "script_modules")
    return pl.concat([numbers, table.about.select(categories)], how="horizontal")


def test_it_answers_as_inside(
    model: Model, features: pl.DataFrame, table: JobTable, without_profiles: Bundle
) -> None:
    wanted = without_profiles.probability(without_profiles.assembly.matrix(table))
    found = model.predict_proba(features)
    assert found.shape == (features.height, 2)
    np.testing.assert_allclose(found[:, 1], wanted, rtol=1e-9)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert len(np.unique(found[:, 1])) > 100


@pytest.mark.parametrize(
    "kind",
    [
        lambda frame: frame.to_arrow(),
        lambda frame: frame.to_pandas(),
        lambda frame: frame.to_pandas(use_pyarrow_extension_array=True),
        lambda frame: frame.lazy(),
        lambda frame: frame.to_dict(as_series=False),
        lambda frame: frame.select(reversed(frame.columns)).with_columns(more=pl.lit("x")),
    ],
    ids=["arrow", "pandas", "pandas-arrow", "lazy", "mapping", "other order"],
)
def test_any_frame_will_do(model: Model, features: pl.DataFrame, kind: Callable[[Any], Any]) -> None:
    some = features.head(200)
    assert (model.predict_proba(kind(some)) == model.predict_proba(some)).all()


def test_contributions_add_up(model: Model, features: pl.DataFrame, without_profiles: Bundle) -> None:
    some = features.head(50)
    parts = model.contributions(some)
    assert parts.columns == [*model.columns, "bias"]
    margins = without_profiles.calibration(parts.sum_horizontal().to_numpy())
    np.testing.assert_allclose(margins, model.predict_proba(some)[:, 1], rtol=1e-6)


def test_a_missing_column_is_named(model: Model, features: pl.DataFrame) -> None:
    first, *_ = model.columns
    with pytest.raises(UsageError, match=f"the frame lacks {first}; `Site.features` returns them"):
        model.predict_proba(features.drop(first))


def test_what_is_no_frame_is_refused(model: Model) -> None:
    with pytest.raises(UsageError, match="not a frame of Polars, Arrow or pandas: int"):
        model.predict_proba(3)


def test_a_model_with_profiles_takes_no_frame(bundle: Bundle, features: pl.DataFrame, tmp_path: Path) -> None:
    bundle.save(tmp_path / "bundle")
    with pytest.raises(UsageError, match="this model uses profiles as features"):
        Model(tmp_path / "bundle", ModelName("alps", "submit", "generic"), 1).predict_proba(features)


def test_threads_load_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny_bundle().save(tmp_path / "bundle")
    loads = []
    load = Bundle.load

    def counted(folder: Path) -> Bundle:
        loads.append(folder)
        return load(folder)

    monkeypatch.setattr(Bundle, "load", counted)
    model = Model(tmp_path / "bundle", ModelName("alps", "submit", "generic"), None)
    assert not loads
    frames = [pl.DataFrame({"online": np.linspace(-2, 2, 50) + shift}) for shift in range(8)]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(model.predict_proba, frames))
    assert len(loads) == 1
    for frame, answer in zip(frames, answers, strict=True):
        assert (answer == model.predict_proba(frame)).all()


def test_missing_values_of_pandas_are_missing() -> None:
    import pandas as pd

    frame = pd.DataFrame({"a": [1.0, None], "b": ["x", None], "c": pd.array([1, None], dtype="Int64")})
    found = as_polars(frame)
    assert found["b"].to_list() == ["x", None]
    assert found["c"].to_list() == [1, None]
    assert found["a"].to_list() == [1.0, None]
